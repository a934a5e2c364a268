import { expect, test } from "vitest";
import { readPod } from "./example_pod.ts";

const RESTRICTED = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};

test.each(["audit_verify.yaml", "backups.yaml", "restore.yaml"])(
  "the pod of %s is restricted and reads each Secret from a file",
  async (file) => {
    const pod = await readPod(file);
    expect(pod.automountServiceAccountToken).toBe(false);
    expect(pod.securityContext).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: "RuntimeDefault" },
    });
    for (const container of [...(pod.initContainers ?? []), ...pod.containers]) {
      expect(container.securityContext).toEqual(RESTRICTED);
      const folders = container.volumeMounts?.map(({ mountPath }) => mountPath) ?? [];
      for (const { name, value = "" } of container.env ?? []) {
        expect(
          folders.some((folder) => value.startsWith(`${folder}/`)),
          name,
        ).toBe(true);
      }
    }
  },
);
