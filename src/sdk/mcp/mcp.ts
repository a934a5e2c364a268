export { authorityOf } from "../route.ts";
export type { AuthInfo } from "./context.ts";
export type { PrincipalsOf } from "./decide_call.ts";
export {
  type GuardableServer,
  type GuardToolsOptions,
  guardTools,
  type LowLevelServer,
} from "./guard_tools.ts";
export type { ToolRule, ToolRules } from "./rules.ts";
export { AUTHORITY } from "./wire.ts";
export {
  type ClientTransport,
  type ToolScope,
  type WithAuthorityOptions,
  withAuthority,
} from "./with_authority.ts";
