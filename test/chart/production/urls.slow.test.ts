import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { helm } from "../../support/helm.ts";
import { type Container, containersOf, nameOf, type Pod, podsOf, type Rendered, render } from "../render.ts";
import { EXAMPLE } from "./files.ts";
import { templateOf } from "./secrets.ts";

const program = await helm("v4");
if (program.missing !== undefined) console.error(`SKIPPED, missing: ${program.missing}`);

const URLS = ["deputize-database", "deputize-keyvault-database"].flatMap((secret) =>
  Object.entries(templateOf(secret)).map(([key, template]) => ({ secret, key, template })),
);
const PASSWORDS = { password: "a b+c/d?e#f@g:h%i&j", ownerPassword: "ö'\"\\{{ }}" };

describe.skipIf(program.missing !== undefined)("database URLs in the production example", () => {
  test("name a CA file that is mounted in every container with the URL", async () => {
    const objects = await Promise.all(
      [false, true].map((isUpgrade) => render(program.path ?? "", EXAMPLE, { isUpgrade })),
    );
    const containers = podsOf(objects.flat()).flatMap((pod) =>
      containersOf(pod).map((container) => ({
        where: `${nameOf(pod.of)} ${container.name}`,
        files: filesOf(pod, container),
      })),
    );
    const found = containers.flatMap(({ where, files }) => {
      const paths = files.map(({ path }) => path);
      const given = URLS.filter(({ secret, key }) =>
        files.some((file) => file.secret === secret && file.key === key),
      );
      for (const { template } of given) expect(paths, where).toContain(authorityOf(template));
      return given.map(() => where);
    });
    expect([...new Set(found)].sort()).toEqual([
      "Deployment deputize-api api",
      "Deployment deputize-worker worker",
      "Job deputize-migrate migrate",
      "Pod deputize-doctor-api doctor",
      "Pod deputize-doctor-worker doctor",
      "StatefulSet deputize-keyvault init",
      "StatefulSet deputize-keyvault keyvault",
    ]);
  });

  /** External Secrets uses the template functions of Go and Sprig, as Helm does. */
  test("escape any password correctly", async () => {
    const chart = await mkdtemp(join(tmpdir(), "deputize-template-"));
    try {
      await writeFile(join(chart, "Chart.yaml"), "apiVersion: v2\nname: template\nversion: 0.0.0\n");
      await mkdir(join(chart, "templates"));
      const data = Object.fromEntries(
        URLS.map(({ secret, key, template }) => [`${secret}.${key}`, template]),
      );
      const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "urls" }, data };
      const text = JSON.stringify(object).replaceAll('\\"', '"');
      await writeFile(join(chart, "templates/urls.yaml"), `{{ with .Values }}${text}{{ end }}`);
      const [urls] = (await render(program.path ?? "", PASSWORDS, { chart })) as [Rendered];
      const passwords = Object.entries(urls.data as Record<string, string>).map(([name, url]) => [
        name,
        decodeURIComponent(new URL(url).password),
      ]);
      expect(Object.fromEntries(passwords)).toEqual({
        "deputize-database.url": PASSWORDS.password,
        "deputize-keyvault-database.url": PASSWORDS.password,
        "deputize-keyvault-database.migrationUrl": PASSWORDS.ownerPassword,
      });
    } finally {
      await rm(chart, { recursive: true, force: true });
    }
  });
});

function filesOf({ template }: Pod, { volumeMounts = [] }: Container) {
  return volumeMounts.flatMap(({ name, mountPath }) => {
    const volume = template.spec.volumes?.find((each) => each.name === name);
    const items: { key: string; path: string }[] = volume?.secret?.items ?? [];
    return items.map(({ key, path }) => ({
      secret: volume?.secret.secretName,
      key,
      path: `${mountPath}/${path}`,
    }));
  });
}

function authorityOf(template: string): string | null {
  return new URL(template.replaceAll(/\{\{.*?\}\}/g, "")).searchParams.get("sslrootcert");
}
