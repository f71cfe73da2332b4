"""What one NUMA node cannot show: jobs bound on machines with several, made of QEMU.

    python -m tests.vm            boot every machine and run every check in it
    python -m tests.vm 2s cxl     these machines only

``suite.py`` runs in the guest; its list ``CHECKS`` says what is checked where.
"""
