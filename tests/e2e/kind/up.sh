#!/usr/bin/env bash
# A kind cluster with the project's images and the chart on it, ready for the end-to-end suite:
#   tests/e2e/kind/up.sh [1.34.0]
#   make e2e E2E_KUBECONFIG="$PWD/tests/e2e/kind/kubeconfig"
# Needs docker (or CONTAINER_TOOL=podman), kind, kubectl and helm.
set -euo pipefail

version="${1:-1.34.0}"
tool="${CONTAINER_TOOL:-docker}"
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../../.." && pwd)"
name="${KIND_CLUSTER:-gpu-dra}"
profile="${PROFILE:-split-4x4}"

for program in "$tool" kind kubectl helm; do
  command -v "$program" >/dev/null || { echo "up.sh: $program is not on PATH; it is needed" >&2; exit 1; }
done

config="$here/kind-config.yaml"
case "$version" in
  1.32.* | 1.33.*) config="$here/kind-config-1.32.yaml" ;;
esac
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

kind get clusters | grep -qx "$name" ||
  kind create cluster --name "$name" --config "$config" --image "kindest/node:v$version" --wait 3m
kind get kubeconfig --name "$name" >"$here/kubeconfig"
chmod 600 "$here/kubeconfig"
export KUBECONFIG="$here/kubeconfig"

for target in node-agent controller; do
  "$tool" build --target "$target" --tag "localhost/gpu-dra-$target:e2e" --file "$root/Containerfile" "$root"
done
"$tool" pull docker.io/library/busybox:1.37
"$tool" tag docker.io/library/busybox:1.37 localhost/busybox:e2e
for image in localhost/gpu-dra-node-agent:e2e localhost/gpu-dra-controller:e2e localhost/busybox:e2e; do
  "$tool" save "$image" --output "$scratch/image.tar"
  kind load image-archive "$scratch/image.tar" --name "$name"
done

helm upgrade --install gpu-dra "$root/charts/gpu-dra" --namespace gpu-dra --create-namespace --wait --timeout 5m \
  --set nodeAgent.simulate.profile="$profile" \
  --set nodeAgent.image.repository=localhost/gpu-dra-node-agent --set nodeAgent.image.tag=e2e \
  --set controller.image.repository=localhost/gpu-dra-controller --set controller.image.tag=e2e
kubectl get resourceslices
echo "$here/kubeconfig"
