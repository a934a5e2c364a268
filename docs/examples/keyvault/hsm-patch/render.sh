#!/bin/sh
# Reads rendered objects and prints them with the patches of kustomization.yaml in this folder.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$(dirname "$0")/kustomization.yaml" "$folder"
cat > "$folder/all.yaml"
kubectl kustomize "$folder"
