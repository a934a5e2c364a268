#!/bin/sh
# Takes rendered objects, and gives them patched as kustomization.yaml beside this file says.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$(dirname "$0")/kustomization.yaml" "$folder"
cat > "$folder/all.yaml"
kubectl kustomize "$folder"
