"""A kubelet's log, in every form people have it: lines → events.

Rules kept here:

1. A line is unframed first (journal, container runtime, collector, prefix of a node), then its head is read
   (klog text or JSON), then its message; each step knows nothing of the others.
2. What a message means is known for releases 1.16 to 1.37, in plain and in structured form.  An event carries
   the releases that word it so, which shows the release of a log that does not name it.
3. Nothing raises: what is not a line of a kubelet is counted, what is cut off is marked as cut off.
4. Memory does not grow with the log: bytes come in blocks, and only lines with a known word are looked at.
"""

from numawise.codec.kubeletlog.reader import Tally, events_in
from numawise.results.log import Event, Origin, PodRef

__all__ = ["Event", "Origin", "PodRef", "Tally", "events_in"]
