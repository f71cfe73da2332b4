#!/bin/bash
# User data of an AL2 node.
set -ex
/etc/eks/bootstrap.sh training \
  --b64-cluster-ca "$CLUSTER_CA" --apiserver-endpoint "$API_SERVER" \
  --kubelet-extra-args '--node-labels=pool=gpu --cpu-manager-policy=static \
    --topology-manager-policy=best-effort --reserved-cpus=0,1'
