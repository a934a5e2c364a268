import { describe, expect, test } from "vitest";
import { EXAMPLE } from "../../chart/production/files.ts";
import { type PodSpec, type Rendered, render } from "../../chart/render.ts";
import { helm } from "../../support/helm.ts";
import { readTemplate } from "./example_pod.ts";

const program = await helm("v3");
if (program.missing !== undefined) console.error(`SKIPPED, missing: ${program.missing}`);

/** Objects that an administrator creates for an example according to the runbook. */
const MADE_FOR_IT = ["recovery-key", "deputize-keyvault-heads"];
const DENY = "deputize-deny";

/** For each example, the network policies that select its pod, and their ports. */
const ARROWS: [file: string, policies: string[], ports: number[]][] = [
  ["audit_verify.yaml", [DENY, "deputize-keyvault-init"], [53, 5432]],
  ["restore.yaml", [DENY, "deputize-keyvault-init"], [53, 5432]],
  ["backups.yaml", [DENY], []],
];

describe.skipIf(program.missing !== undefined)(
  "the vault's examples, together with the production example",
  () => {
    test.each(ARROWS)(
      "use only volumes, Secrets and routes of the release in %s",
      async (file, policies, ports) => {
        const objects = await render(program.path ?? "", EXAMPLE);
        const { metadata, spec } = await readTemplate(file);
        const known = [...namesOf(objects), ...MADE_FOR_IT];
        const needed = (spec.volumes ?? []).flatMap(sourcesOf);
        expect(needed.length).toBeGreaterThan(0);
        expect(needed.filter((name) => !known.includes(name))).toEqual([]);

        // The databases' URLs contain the path of this file in the vault's container.
        const authority = pathsOf(spec.containers, /database-ca$/);
        expect(authority).toEqual(
          file === "backups.yaml" ? [] : pathsOf(vaultOf(objects).containers, /database-ca$/),
        );

        const own = objects.filter(
          ({ kind, spec }) => kind === "NetworkPolicy" && selects(spec.podSelector, metadata.labels ?? {}),
        );
        expect(own.map(({ metadata }) => metadata.name).sort()).toEqual(policies);
        const open = own.flatMap(({ spec }) => [...(spec.egress ?? []), ...(spec.ingress ?? [])]);
        const found = open.flatMap((rule: { ports: { port: number }[] }) =>
          rule.ports.map(({ port }) => port),
        );
        expect([...new Set(found)].sort((one, other) => one - other)).toEqual(ports);
      },
    );
  },
);

type Volume = NonNullable<PodSpec["volumes"]>[number];

const sourcesOf = ({ secret, configMap, persistentVolumeClaim }: Volume): string[] =>
  [secret?.secretName, configMap?.name, persistentVolumeClaim?.claimName].filter(
    (name) => name !== undefined,
  );

const pathsOf = (containers: PodSpec["containers"], name: RegExp) =>
  containers.flatMap(({ volumeMounts = [] }) =>
    volumeMounts.filter((mount) => name.test(mount.name)).map(({ mountPath }) => mountPath),
  );

function vaultOf(objects: readonly Rendered[]): PodSpec {
  const set = objects.find(
    ({ kind, metadata }) => kind === "StatefulSet" && /-keyvault$/.test(metadata.name),
  );
  return set?.spec.template.spec;
}

/** Returns the names of the vault's own volume, of its pod's volumes, and of the release's claims. */
function namesOf(objects: readonly Rendered[]): string[] {
  const claims = objects.filter(({ kind }) => kind === "PersistentVolumeClaim");
  return [
    ...claims.map(({ metadata }) => metadata.name),
    "data-deputize-keyvault-0",
    ...(vaultOf(objects).volumes ?? []).flatMap(sourcesOf),
  ];
}

const selects = ({ matchLabels }: { matchLabels: Record<string, string> }, labels: Record<string, string>) =>
  Object.entries(matchLabels).every(([name, value]) => labels[name] === value);
