import { describe, expect, test } from "vitest";
import { type Rbac, type Rule, subjectText, whoMay } from "../../src/plugin/rbac.ts";

const approve = { resource: "platforms", name: "shop", verbs: ["approve"] };
const write = { resource: "delegations/status", name: "bot", verbs: ["get", "patch"] };
const rule = (changes: Partial<Rule> = {}): Rule => ({
  apiGroups: ["deputize.io"],
  resources: ["platforms"],
  verbs: ["approve"],
  ...changes,
});

/** Grants Jane these rules. */
function of(...rules: Rule[]): Rbac {
  return {
    roles: [{ metadata: { name: "r" }, rules }],
    clusterRoles: [],
    roleBindings: [
      {
        metadata: { name: "b" },
        roleRef: { kind: "Role", name: "r" },
        subjects: [{ kind: "User", name: "jane" }],
      },
    ],
    clusterRoleBindings: [],
  };
}
const names = (rbac: Rbac, wanted: typeof approve) =>
  whoMay(rbac, wanted).map(({ subject }) => subjectText(subject));

describe("the subjects that RBAC allows", () => {
  test.each<[string, Rule, boolean]>([
    ["the verb at the resource", rule(), true],
    ["every verb", rule({ verbs: ["*"] }), true],
    ["only a different verb", rule({ verbs: ["get"] }), false],
    ["every group", rule({ apiGroups: ["*"] }), true],
    ["only a different group", rule({ apiGroups: ["apps"] }), false],
    ["every resource", rule({ resources: ["*"] }), true],
    ["only a different resource", rule({ resources: ["agents"] }), false],
    ["the name", rule({ resourceNames: ["shop"] }), true],
    ["only a different name", rule({ resourceNames: ["bank"] }), false],
    ["the subresource only", rule({ resources: ["platforms/status"] }), false],
  ])("for a rule that allows %s, include its subject only if the rule matches", (_, given, isAllowed) => {
    expect(names(of(given), approve)).toEqual(isAllowed ? ["User jane"] : []);
  });

  test.each<[string, Rule[], boolean]>([
    [
      "of several rules together",
      [
        rule({ resources: ["delegations/status"], verbs: ["get"] }),
        rule({ resources: ["delegations/status"], verbs: ["patch"] }),
      ],
      true,
    ],
    ["on the status of every resource", [rule({ resources: ["*/status"], verbs: ["*"] })], true],
    ["that are incomplete", [rule({ resources: ["delegations/status"], verbs: ["get"] })], false],
    ["on the resource without its status", [rule({ resources: ["delegations"], verbs: ["*"] })], false],
  ])("for granted verbs %s, include the subject only if no verb is missing", (_, rules, isAllowed) => {
    expect(names(of(...rules), write)).toEqual(isAllowed ? ["User jane"] : []);
  });

  test("appear once each, with all of their bindings", () => {
    const jane = { kind: "User", name: "jane" };
    const pipeline = { kind: "ServiceAccount", name: "ci", namespace: "shop" };
    const rbac: Rbac = {
      ...of(rule()),
      clusterRoles: [
        { metadata: { name: "r" }, rules: [rule({ verbs: ["*"] })] },
        { metadata: { name: "empty" }, rules: null },
      ],
      roleBindings: [
        ...of().roleBindings,
        { metadata: { name: "c" }, roleRef: { kind: "ClusterRole", name: "r" }, subjects: [jane, pipeline] },
        { metadata: { name: "d" }, roleRef: { kind: "ClusterRole", name: "gone" }, subjects: [jane] },
        { metadata: { name: "e" }, roleRef: { kind: "ClusterRole", name: "empty" } },
      ],
      clusterRoleBindings: [
        {
          metadata: { name: "f" },
          roleRef: { kind: "ClusterRole", name: "r" },
          subjects: [{ kind: "Group", name: "ops" }],
        },
      ],
    };
    expect(whoMay(rbac, approve).map(({ subject, bindings }) => [subjectText(subject), bindings])).toEqual([
      ["User jane", ["rolebinding/b", "rolebinding/c"]],
      ["ServiceAccount shop/ci", ["rolebinding/c"]],
      ["Group ops", ["clusterrolebinding/f"]],
    ]);
  });
});
