"""The version of every form that numawise writes as JSON or YAML."""

API_VERSION = "numawise.dev/v1alpha1"
