"""The kubelet's configuration: fields, flags, and the forms that carry it."""
