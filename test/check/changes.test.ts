import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { appendFile, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  agent,
  type Changes,
  delegation,
  type Manifest,
  platform,
} from "../operator/schema/cases/manifests.ts";
import { check, checkJson, manifestFolder } from "./support.ts";

const named = (object: Manifest, name: string): Manifest => ({
  ...object,
  metadata: { ...object.metadata, name },
});
const shop = (spec: Changes = {}) =>
  named(platform({ defaultAllowedScopes: ["data:read", "payments:send"], ...spec }), "shop");
const bot = (spec: Changes = {}) => named(agent(spec), "bot");
const asked = (spec: Changes = {}) => named(delegation({ scopes: ["data:read"], ...spec }), "ask");
const tenants = (entry: string) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "deputize-tenants", namespace: "deputize-system" },
  data: { default: entry },
});
const OWNER = "accountEmail: owner@example.test\n";

function git(folder: string, ...args: string[]): void {
  const user = ["-c", "user.name=a", "-c", "user.email=a@example.test", "-c", "commit.gpgsign=false"];
  execFileSync("git", [...user, ...args], { cwd: folder, stdio: "pipe" });
}

/** A repository whose folder `apps` has committed manifests, and then others. */
async function repository(before: object[], after: object[]) {
  const made = await manifestFolder({ "apps/a.yaml": before });
  git(made.folder, "init", "-q");
  git(made.folder, "add", ".");
  git(made.folder, "commit", "-qm", "a");
  await made.write("apps/a.yaml", after);
  return { ...made, apps: join(made.folder, "apps") };
}

type Shown = { object: string; effect: string; lends: string[]; agree: string | null; removed: boolean };

async function changes(before: object[], after: object[]): Promise<Shown[]> {
  const { apps } = await repository(before, after);
  return (await checkJson(apps, { base: "HEAD" })).changes as Shown[];
}

/** Puts a bare repository into a folder, as a commit can contain one, with settings and a false revision. */
async function plantRepository(folder: string, settings: string): Promise<void> {
  git(folder, "init", "-q", "--bare", ".");
  await appendFile(join(folder, "config"), settings);
}

describe("deputize check --base", () => {
  test("ignores a repository that a change has put into the folder, and runs none of its commands", async () => {
    const before = [shop(), bot()];
    const { apps, folder } = await repository(before, [...before, asked()]);
    const trap = join(folder, "trap");
    const command = `touch ${trap}; false`;
    const settings = `[core]\n\tworktree = .\n\tfsmonitor = ${command}\n\tsshCommand = ${command}\n`;
    await plantRepository(apps, settings);
    await expect(check(apps, { base: "HEAD" })).rejects.toThrow("cannot use bare repository");
    expect(existsSync(trap)).toBe(false);
  });

  test("compares with JSON files of the revision", async () => {
    const { apps, folder, write } = await repository([shop(), bot()], [shop(), bot()]);
    await write("apps/ask.json", JSON.stringify(asked()));
    git(folder, "add", ".");
    git(folder, "commit", "-qm", "b");
    await rm(join(apps, "ask.json"));
    const { changes } = await checkJson(apps, { base: "HEAD" });
    expect(changes).toMatchObject([{ object: "Delegation/default/ask", removed: true }]);
  });

  test("runs no program that the settings of the repository name", async () => {
    const { apps, folder } = await repository([shop(), bot()], [shop(), bot(), asked()]);
    const trap = join(folder, "trap");
    const program = join(folder, "program");
    await writeFile(program, `#!/bin/sh\ntouch ${trap}\n`, { mode: 0o755 });
    const hooks = ["post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"];
    await mkdir(join(folder, "hooks"));
    for (const hook of hooks) await symlink(program, join(folder, "hooks", hook));
    await writeFile(join(folder, ".git/included"), `[core]\n\tfsmonitor = ${program}\n`);
    await writeFile(join(folder, ".git/info/attributes"), "*.yaml diff=x filter=x merge=x\n");
    const names = ["core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass"].concat(
      ["core.gitProxy", "core.alternateRefsCommand", "diff.external", "diff.x.command", "diff.x.textconv"],
      ["filter.x.clean", "filter.x.smudge", "filter.x.process", "merge.x.driver", "credential.helper"],
      ["gpg.program", "uploadpack.packObjectsHook", "pager.ls-tree", "pager.cat-file", "pager.rev-parse"],
    );
    for (const name of names) git(folder, "config", name, program);
    git(folder, "config", "alias.cat-file", `!${program}`);
    git(folder, "config", "filter.x.required", "true");
    git(folder, "config", "core.hooksPath", join(folder, "hooks"));
    git(folder, "config", "include.path", "included");
    expect((await checkJson(apps, { base: "HEAD" })).changes).toMatchObject([
      { object: "Delegation/default/ask" },
    ]);
    expect(existsSync(trap)).toBe(false);
  });

  test.each(["ext::", "file://"])(
    "fetches nothing over %s, although the repository allows it",
    async (protocol) => {
      const { apps, folder } = await repository([shop()], [shop()]);
      const trap = join(folder, "trap");
      const program = join(folder, "program");
      await writeFile(program, `#!/bin/sh\ntouch ${trap}\n`, { mode: 0o755 });
      const blob = execFileSync("git", ["rev-parse", "HEAD:apps/a.yaml"], { cwd: folder }).toString().trim();
      for (const [name, value] of [
        ["core.repositoryformatversion", "1"],
        ["extensions.partialClone", "origin"],
        ["remote.origin.promisor", "true"],
        ["remote.origin.url", protocol === "ext::" ? `ext::${program}` : `file://${folder}`],
        ["remote.origin.uploadpack", program],
        ["protocol.allow", "always"],
        ["protocol.ext.allow", "always"],
        ["protocol.file.allow", "always"],
      ] as const) {
        git(folder, "config", name, value);
      }
      await rm(join(folder, ".git/objects", blob.slice(0, 2), blob.slice(2)));
      expect((await check(apps, { base: "HEAD" })).status).toBe(3);
      expect(existsSync(trap)).toBe(false);
    },
  );

  test("names a new delegation's agent, scopes and lifetime, and the people who may approve", async () => {
    const before = [shop(), bot(), tenants(`${OWNER}approvers: [jane, joe]\n`)];
    const found = await changes(before, [...before, asked({ ttl: "24h", requestedBy: "joe" })]);
    expect(found).toEqual([
      {
        object: "Delegation/default/ask",
        file: expect.stringMatching(/apps\/a\.yaml$/),
        line: expect.any(Number),
        removed: false,
        effect:
          "asks for data:read for Agent bot (api_agent) on Platform shop (Shop), for 24h after the approval",
        lends: ["data:read"],
        agree: "owner@example.test in the console, or in Kubernetes jane",
      },
    ]);
  });

  test.each([
    [
      "nobody in Kubernetes if two people are required and the requester is unknown",
      "fourEyes: true\n",
      {},
      "owner@example.test in the console",
    ],
    ["no requester", "approvers: [joe]\n", { requestedBy: "joe" }, "owner@example.test in the console"],
    [
      "every linked user but the requester",
      "",
      { requestedBy: "joe" },
      "owner@example.test in the console, or in Kubernetes a user whom the owner has linked except joe, who asks",
    ],
  ])("lets %s approve", async (_, entry, spec, agree) => {
    const before = [shop(), bot(), tenants(`${OWNER}${entry}`)];
    expect(await changes(before, [...before, asked(spec)])).toMatchObject([{ agree }]);
  });

  test("describes an owner whom the folder does not name", async () => {
    const [found] = await changes([shop(), bot()], [shop(), bot(), asked()]);
    expect(found?.agree).toMatch(/^the owner of the account of namespace default in the console, or /);
  });

  const all = [shop(), bot(), asked()];
  test.each([
    ["a removed delegation", all, [shop(), bot()], "revokes the authority of Agent bot", []],
    ["a revoked delegation", all, [shop(), bot(), asked({ revoked: true })], "revokes for good the auth", []],
    ["a suspended delegation", all, [shop(), bot(), asked({ suspend: true })], "pauses its request", []],
    [
      "a delegation that is no longer suspended",
      [shop(), bot(), asked({ suspend: true })],
      all,
      "asks for",
      ["data:read"],
    ],
    [
      "a narrower ceiling",
      all,
      [shop({ defaultAllowedScopes: ["data:read"] }), bot(), asked()],
      "denies its agents from now on: payments:send",
      [],
    ],
    [
      "a new platform",
      [bot()],
      [bot(), shop()],
      "registers an application whose agents can get at most data:read",
      [],
    ],
    ["a removed platform", [bot(), shop({ deletionPolicy: "Delete" })], [bot()], "removes the platform", []],
    [
      "a removed agent",
      [shop(), bot({ deletionPolicy: "Delete" })],
      [shop()],
      "disables the agent's key",
      [],
    ],
    [
      "an agent that takes over another one",
      [shop(), bot()],
      [shop(), bot({ adopt: "a".repeat(32) })],
      "takes over aaaa",
      [],
    ],
    [
      "a new binding",
      [shop()],
      [shop(), tenants(`${OWNER}ceiling: [data:*, payments:*]\n`)],
      "acts for the account owner@example.test, with at most data:*",
      ["data:*", "payments:*"],
    ],
    [
      "other approvers",
      [shop(), tenants(OWNER)],
      [shop(), tenants(`${OWNER}approvers: [eve]\n`)],
      "eve may approve; before, every linked user",
      [],
    ],
    [
      "a binding without four eyes",
      [shop(), tenants(`${OWNER}fourEyes: true\n`)],
      [shop(), tenants(OWNER)],
      "one person must decide; before, two",
      [],
    ],
    ["a removed binding", [shop(), tenants(OWNER)], [shop()], "no longer acts for the account owner@", []],
  ])("reports %s", async (_, before, after, effect, lends) => {
    const found = await changes(before, after);
    expect(found).toMatchObject([{ effect: expect.stringContaining(effect), lends }]);
  });

  test("says that nobody has to agree to accepted principals", async () => {
    const humanID = "a".repeat(32);
    const wide = shop({ acceptedPrincipals: [{ humanID, scopes: ["data:read", "payments:send"] }] });
    const narrow = shop({ acceptedPrincipals: [{ humanID, scopes: ["data:read"] }] });
    const effect = expect.stringContaining(`accepts authority that root identity ${humanID} lends`);
    expect(await changes([shop()], [narrow])).toMatchObject([{ effect, lends: ["data:read"], agree: null }]);
    expect(await changes([narrow], [wide])).toMatchObject([{ effect, lends: ["payments:send"] }]);
    expect(await changes([narrow], [shop()])).toMatchObject([
      { effect: `no longer accepts authority of root identity ${humanID}` },
    ]);
  });

  test.each([
    [
      "a comment, a label and a move to another file",
      [shop(), bot(), asked()].map((each) => ({
        ...each,
        metadata: { ...each.metadata, labels: { a: "b" } },
      })),
    ],
    ["an object that is refused", [shop(), bot(), asked({ scopes: ["data:write"] })]],
    ["an object that is declared twice", [shop(), bot(), asked(), asked()]],
  ])("reports no effect of %s", async (_, after) => {
    expect(await changes(all, after)).toEqual([]);
  });

  test("reports no removal while a file cannot be read", async () => {
    const { apps, write } = await repository(all, []);
    await write("apps/a.yaml", "{");
    const { changes, findings } = await checkJson(apps, { base: "HEAD" });
    expect({ changes, count: findings.length }).toEqual({ changes: [], count: 1 });
  });

  test("applies the rules for changes, such as immutable fields", async () => {
    const { apps } = await repository(
      [shop(), bot(), asked({ ttl: "1h" })],
      [shop(), bot(), asked({ ttl: "2h" })],
    );
    const { findings, changes } = await checkJson(apps, { base: "HEAD" });
    expect(findings).toMatchObject([{ path: "spec.ttl", message: "ttl is immutable" }]);
    expect(changes).toEqual([]);
    expect((await checkJson(apps)).findings).toEqual([]);
  });

  test("accepts a folder whose last object was removed", async () => {
    const { apps } = await repository([shop()], []);
    expect(await check(apps, { base: "HEAD" })).toMatchObject({ status: 0, err: "" });
  });

  test("prints text for people and notices for GitHub", async () => {
    const { apps } = await repository([shop(), bot()], [shop(), bot(), asked()]);
    const text = await check(apps, { base: "HEAD" });
    expect(text.status).toBe(0);
    expect(text.out).toMatch(
      /^Effects on authority since HEAD:\n {2}Delegation\/default\/ask asks for data:read .*\n {4}.*a\.yaml:\d+; must agree: the owner/,
    );
    const github = await check(apps, { base: "HEAD", github: true });
    expect(github.out).toMatch(/^::notice file=apps\/a\.yaml,line=\d+,title=Delegation\/default\/ask::/);
    const { apps: same } = await repository([shop()], [shop()]);
    expect((await check(same, { base: "HEAD" })).out).toMatch(/^No effect on authority since HEAD\.\n/);
  });

  test("compares a single file with the same file", async () => {
    const { apps, write, folder } = await repository([shop(), bot()], [shop(), bot(), asked()]);
    await write("apps/b.yaml", [named(shop(), "other")]);
    git(folder, "add", ".");
    const { changes } = await checkJson(join(apps, "a.yaml"), { base: "HEAD" });
    expect(changes).toMatchObject([{ object: "Delegation/default/ask" }]);
  });

  test("reads links, names with line breaks and large files of the revision", async () => {
    const { apps, folder, write } = await repository([shop()], [shop()]);
    await symlink("../kept/b.txt", join(apps, "b.yaml"));
    await symlink("loop.yaml", join(apps, "loop.yaml"));
    await symlink("/etc/passwd", join(apps, "out.yaml"));
    await write("kept/b.txt", [bot()]);
    await write("apps/new\nline.yaml", [asked()]);
    await write("apps/large.yaml", " ".repeat(1024 * 1024 + 1));
    await write("apps/.hidden/c.yaml", [named(shop(), "hidden")]);
    git(folder, "add", ".");
    git(folder, "commit", "-qm", "b");
    for (const name of ["loop.yaml", "out.yaml", "large.yaml"]) await rm(join(apps, name));
    expect(await checkJson(apps, { base: "HEAD" })).toMatchObject({ objects: 3, findings: [], changes: [] });
    await rm(join(apps, "b.yaml"));
    await rm(join(apps, "new\nline.yaml"));
    const { changes } = await checkJson(apps, { base: "HEAD" });
    expect(changes).toMatchObject([{ object: "Delegation/default/ask", removed: true }]);
  });

  test.each(["nope", "--help", "HEAD:apps", "HEAD\n", ""])("refuses the revision %j", async (base) => {
    const { apps } = await repository([shop()], [shop()]);
    await expect(check(apps, { base })).rejects.toThrow("is no revision in this clone");
  });

  test("refuses a folder outside a repository", async () => {
    const { folder } = await manifestFolder({ "a.yaml": [shop()] });
    await expect(check(folder, { base: "HEAD" })).rejects.toThrow(
      "--base needs a folder in a Git repository",
    );
  });
});
