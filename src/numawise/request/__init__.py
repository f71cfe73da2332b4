"""What is asked: pods and their containers, after the API server's defaults."""

from numawise.request.defaults import RawContainer, RawPod, defaulted
from numawise.request.model import ContainerRequest, PodRequest, Role

__all__ = ["ContainerRequest", "PodRequest", "RawContainer", "RawPod", "Role", "defaulted"]
