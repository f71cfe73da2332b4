"""How kube-scheduler is told to ask."""

from numawise.apps.scheduler.configuration import (
    HIGHEST_OF_PLUGIN,
    STEP,
    STOCK_WEIGHTS,
    WEIGHT,
    ExtenderWish,
    scheduler_configuration,
)


def test_one_step_outweighs_all_plugins_together() -> None:
    assert HIGHEST_OF_PLUGIN * sum(STOCK_WEIGHTS.values()) < WEIGHT * STEP


def test_configuration() -> None:
    wish = ExtenderWish("https://127.0.0.1:9443", "/etc/kubernetes/scheduler.conf", "/ca", "/cert", "/key")
    assert scheduler_configuration(wish) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True},
        "percentageOfNodesToScore": 100,
        "extenders": [
            {
                "urlPrefix": "https://127.0.0.1:9443",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "weight": WEIGHT,
                "nodeCacheCapable": True,
                "ignorable": True,
                "httpTimeout": "5s",
                "enableHTTPS": True,
                "tlsConfig": {"certFile": "/cert", "keyFile": "/key", "caFile": "/ca"},
            }
        ],
        "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
    }


def test_plain_http_has_no_certificates() -> None:
    wish = ExtenderWish("http://127.0.0.1:9443", "", managed=("nvidia.com/gpu",), ignorable=False)
    configuration = scheduler_configuration(wish)
    (extender,) = configuration["extenders"]
    assert "tlsConfig" not in extender
    assert not extender["enableHTTPS"]
    assert not extender["ignorable"]
    assert extender["managedResources"] == [{"name": "nvidia.com/gpu", "ignoredByScheduler": False}]
    assert "clientConnection" not in configuration
