"""What this host, or a copy of its ``/sys`` and ``/proc``, has to say about itself."""
