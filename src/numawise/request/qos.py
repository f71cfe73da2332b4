"""The QoS class of a pod, from CPU and memory alone."""

from collections.abc import Sequence

from numawise.quantity import Quantity
from numawise.request.model import BEST_EFFORT, BURSTABLE, CPU, GUARANTEED, MEMORY, Amounts

COUNTED = (CPU, MEMORY)


def qos_class(containers: Sequence[tuple[Amounts, Amounts]]) -> str:
    """Class of a pod whose containers have these (requests, limits).

    Guaranteed when every container limits both CPU and memory and the *sums* of requests and
    limits agree; a pod with pod-level resources is judged as if it were one container.
    """
    requests = dict.fromkeys(COUNTED, 0)
    limits = dict.fromkeys(COUNTED, 0)
    limited_everywhere = True
    for wanted, allowed in containers:
        for name in COUNTED:
            requests[name] += max(0, _nano(wanted.get(name)))
            limit = max(0, _nano(allowed.get(name)))
            limits[name] += limit
            limited_everywhere = limited_everywhere and limit > 0
    if not any(requests.values()) and not any(limits.values()):
        return BEST_EFFORT
    return GUARANTEED if limited_everywhere and requests == limits else BURSTABLE


def _nano(amount: Quantity | None) -> int:
    return amount.nano if amount else 0
