import { onlyName } from "../arguments.ts";
import { type Command, type Context, shared } from "../command.ts";
import { type Delegation, objectOf, type Platform } from "../objects.ts";
import {
  type Allowed,
  type Rbac,
  type Role,
  type RoleBinding,
  type Subject,
  subjectText,
  whoMay,
} from "../rbac.ts";
import { table, wrapped } from "../text.ts";

/** A subject that may approve, or that lacks a requirement. `note` names the missing requirement. */
type Approver = Allowed & { note: string };

/** The command `who-can-approve`: shows the users whom RBAC allows to approve for a platform. */
export const whoCanApprove: Command = {
  summary: "Show who may approve according to RBAC",
  usage: "<delegation> | platform/<name>",
  named: "any",
  options: { output: shared.output },
  async run(context) {
    const { terminal, options, names } = context;
    const named = onlyName(names, "a delegation, or platform/<name>");
    const platform = await platformOf(context, named);
    const rbac = await readRbac(context);
    const delegation = named.includes("/") ? "*" : named;
    const writers = whoMay(rbac, {
      resource: "delegations/status",
      name: delegation,
      verbs: ["get", "patch"],
    });
    const approvers = whoMay(rbac, { resource: "platforms", name: platform, verbs: ["approve"] });
    const isAdministrators = ({ subject }: Allowed) =>
      subjectText(subject) === subjectText(ADMINISTRATORS.subject);
    const others = approvers.filter((each) => !isAdministrators(each));
    const found = [...others.map((each) => judged(each, writers)), ADMINISTRATORS];
    if (options.output === "json") {
      terminal.out(`${JSON.stringify(found, undefined, 2)}\n`);
      return;
    }
    const columns = [
      { heading: "WHO", of: ({ subject }: Approver) => subjectText(subject) },
      { heading: "CAN", of: ({ note }: Approver) => (note === "" ? "yes" : "no") },
      { heading: "BY", of: ({ bindings }: Approver) => bindings.join(","), dropsAt: 1 },
      { heading: "WHY NOT", of: ({ note }: Approver) => note },
    ];
    terminal.out(table(found, columns, terminal.width));
    const text =
      "A decision counts only if the account's owner has linked its user (kubectl deputize link), the namespace's binding allows this user, and the user did not request it. Writing the status needs get and patch on delegations/status.";
    terminal.out(`\n${wrapped(text, terminal.width)}\n`);
  },
};

/** Members of this group may approve without any role. */
const ADMINISTRATORS: Approver = {
  subject: { kind: "Group", name: "system:masters" },
  bindings: ["built in"],
  note: "",
};

async function platformOf({ kubectl }: Context, named: string): Promise<string> {
  const [kind, name] = named.split("/");
  if (name !== undefined && /^platforms?(\.deputize\.io)?$/.test(kind ?? "")) {
    return (await objectOf<Platform>(kubectl, "platform", name)).metadata.name;
  }
  return (await objectOf<Delegation>(kubectl, "delegation", named)).spec.platformRef.name;
}

async function readRbac({ kubectl }: Context): Promise<Rbac> {
  const list = async <T>(resource: string) => (await kubectl.list<never>([resource])) as T[];
  const [roles, clusterRoles, roleBindings, clusterRoleBindings] = await Promise.all([
    list<Role>("roles.rbac.authorization.k8s.io"),
    list<Role>("clusterroles.rbac.authorization.k8s.io"),
    list<RoleBinding>("rolebindings.rbac.authorization.k8s.io"),
    list<RoleBinding>("clusterrolebindings.rbac.authorization.k8s.io"),
  ]);
  return { roles, clusterRoles, roleBindings, clusterRoleBindings };
}

function judged(allowed: Allowed, writers: readonly Allowed[]): Approver {
  const same = ({ subject }: Allowed) => subjectText(subject) === subjectText(allowed.subject);
  const writer = writers.find(same);
  if (!isPerson(allowed.subject)) {
    return { ...allowed, note: "not a person" };
  }
  if (writer === undefined) return { ...allowed, note: "cannot write the status" };
  return { ...allowed, bindings: [...new Set([...allowed.bindings, ...writer.bindings])], note: "" };
}

function isPerson({ kind, name }: Subject): boolean {
  return kind !== "ServiceAccount" && !/^system:(serviceaccount|node|anonymous|unauthenticated)/.test(name);
}
