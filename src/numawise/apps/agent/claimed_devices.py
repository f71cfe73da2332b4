"""Where claimed devices are, by what their drivers publish at the API server: ResourceSlices of the node."""

from collections.abc import Mapping

from numawise.codec.claims import GROUP, SLICE, VERSIONS, DeviceKey, SliceDevice, claim_objects
from numawise.codec.document import Document
from numawise.codec.workload import objects_in
from numawise.kube.calls import NotServed, listed
from numawise.kube.client import Cluster


def slice_devices(cluster: Cluster, node: str) -> Mapping[DeviceKey, SliceDevice]:
    """The devices of a node's ResourceSlices, in the newest version that is served; blocks.

    Devices that belong to no one node are not among them: they have no NUMA node of this one.
    """
    for version in VERSIONS:
        path, what = f"/apis/{GROUP}/{version}/resourceslices", f"list the resourceslices of node {node}"
        try:
            slices, _ = listed(cluster, path, what, {"fieldSelector": f"spec.nodeName={node}"})
        except NotServed:
            continue
        value = {"apiVersion": f"{GROUP}/{version}", "kind": f"{SLICE}List", "items": slices}
        return claim_objects(objects_in(Document(value, cluster.access.server).root)).devices
    return {}
