import { memberRoles } from "../../../route.ts";
import type { Choice } from "../../elements/forms/fields.ts";
import type { Texts } from "../../texts/texts.ts";

/** The roles to choose one of, each with what it may do. */
export function roleChoices({ acting }: Texts): Choice[] {
  return memberRoles.map((role) => ({
    value: role,
    label: acting.roles[role],
    hint: acting.roleHints[role],
  }));
}
