import { chmod, cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HELMS, helm } from "../support/helm.ts";
import { kubernetesBinary } from "../support/kubernetes/binary.ts";
import { CHART, helmWithValues, NAMESPACE, nameOf, objectsOf, RELEASE } from "./render.ts";
import { PRODUCTION } from "./values.ts";

const EXAMPLE = join(CHART, "../../docs/examples/keyvault/hsm-patch");
const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
const kubernetes = await kubernetesBinary();
const missing = [...programs, kubernetes].find((program) => program.missing !== undefined)?.missing;
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

/** Kubernetes reads this YAML number as octal, but the tests' parser does not. */
const OCTAL = /(?<=defaultMode: )0440$/gm;

/** The post-renderer for each version of Helm: a program, or the name of a plugin. */
const RENDERERS = { v3: join(EXAMPLE, "render.sh"), v4: "hsm-patch" };

describe.skipIf(missing !== undefined).each(programs)("helm $version", ({ version, path = "" }) => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-plugins-"));
    await cp(EXAMPLE, join(folder, "plugins/hsm-patch"), { recursive: true });
    await writeFile(join(folder, "kubectl"), `#!/bin/sh\nexec '${kubernetes.path}' kubectl "$@"\n`);
    await chmod(join(folder, "kubectl"), 0o755);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  test("applies the example post-renderer, which adds only a device and access to a network HSM to the vault", async () => {
    const command = ["template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", "1.33.0"];
    const environment = {
      PATH: `${folder}${delimiter}${process.env.PATH}`,
      ...(version === "v4" && { HELM_PLUGINS: join(folder, "plugins") }),
    };
    const render = async (more: readonly string[]) => {
      const { isGood, out, err } = await helmWithValues(path, [...command, ...more], PRODUCTION, environment);
      expect(err).toBe("");
      expect(isGood).toBe(true);
      const text = out.replaceAll(OCTAL, String(0o440));
      return new Map(
        objectsOf(text).map((object) => [`${nameOf(object)} ${object.metadata.namespace}`, object]),
      );
    };
    const plain = await render(["--no-hooks"]);
    const patched = await render(["--no-hooks", "--post-renderer", RENDERERS[version]]);
    const [container] =
      plain.get(`StatefulSet deputize-keyvault ${NAMESPACE}`)?.spec.template.spec.containers ?? [];
    container.resources.limits["vendor.example.com/hsm"] = 1;
    plain.get(`NetworkPolicy deputize-keyvault ${NAMESPACE}`)?.spec.egress.push({
      to: [{ ipBlock: { cidr: "10.70.0.10/32" } }],
      ports: [{ port: 2223, protocol: "TCP" }],
    });
    expect(Object.fromEntries(patched)).toEqual(Object.fromEntries(plain));
  });
});
