"""Codes about the way to another release."""

from numawise.results.codes.model import ERROR, INFO, WARNING, Code

UPGRADES = {
    "NW601": Code(
        "The other release does not start with this configuration",
        ERROR,
        "After the upgrade the node stays down.",
        "Change the configuration before the upgrade.",
        "The newer kubelet was given the configuration of the older one, and refuses: a gate is gone or "
        "locked, or a value is no longer accepted.",
    ),
    "NW602": Code(
        "The configuration means something else in the other release",
        WARNING,
        "It starts, and does not do the same.",
        "Write down what you want, so that it does not hang on a default.",
        "A default changed, or a field that one release passes over counts in the other.",
    ),
    "NW603": Code(
        "The other release does not take a state file over",
        ERROR,
        "After the upgrade the node stays down, or forgets who has which device.",
        "Drain the node before the upgrade and delete the file.",
        "Formats of state files change between releases, and not all are read by others, least of all on "
        "the way back.",
    ),
    "NW604": Code(
        "A pod fares otherwise in the other release",
        WARNING,
        "The same pod on the same node is refused, admitted, or placed elsewhere.",
        "Try it on one node first.",
        "Both releases were given the same node and the same pods. What differs is due to the release.",
    ),
    "NW605": Code(
        "A running pod does not survive a restart of the kubelet",
        WARNING,
        "It is admitted again, refused, and fails.",
        "Drain the node before the restart.",
        "When the kubelet starts it admits every pod it finds, under its present rules. A pod that got its "
        "place under others may be refused.",
    ),
    "NW606": Code(
        "What the upgrade changes here",
        INFO,
        "It differs in words or in files, not in what pods get.",
        "Nothing.",
        "Messages, file formats and the like differ between the two releases.",
    ),
}
