import type { z } from "zod";
import type { CreditsAnswer } from "../../accounts/ledger/credits_route.ts";
import type { MailChoicesAnswer, StoppedAnswer } from "../../accounts/mailings/routes.ts";
import type { SessionsAnswer } from "../../accounts/sessions/own_sessions.ts";
import type { SessionAnswer } from "../../accounts/sessions/session_routes.ts";
import type { ChannelAnswer } from "../../channels/routes.ts";
import type { ClusterApproverAnswer } from "../../clusters/approver_routes.ts";
import type { NamespaceBindingAnswer } from "../../clusters/namespace_routes.ts";
import type { UseAnswer } from "../../delegations/certificates/certificate_use.ts";
import type { ChainAnswer } from "../../delegations/certificates/check_certificate_route.ts";
import type { CertificateAnswer, RequestAnswer } from "../../delegations/delegation_answers.ts";
import type { PreviewAnswer } from "../../delegations/requests/preview_route.ts";
import type { ScopesAnswer } from "../../delegations/scopes_route.ts";
import type { callbackAnswer } from "../../deliveries/callback_view.ts";
import type { deliveryAnswer, wholeDeliveryAnswer } from "../../deliveries/delivery_view.ts";
import type { recoveryAnswer } from "../../deliveries/recovery_routes.ts";
import type { DailyCounts } from "../../history/daily_counts.ts";
import type { ReceiptAnswer, ReceiptCheckAnswer } from "../../history/receipt_routes.ts";
import type { EventAnswer, ExportAnswer, HistoryAnswer } from "../../history/routes.ts";
import type { PartAnswer, SuspendedAnswer } from "../../installation/routes.ts";
import type { ActivityAnswer } from "../../organizations/activity.ts";
import type { OrganizationDomainAnswer } from "../../organizations/domain_routes.ts";
import type { InvitationAnswer, ReadInvitationAnswer } from "../../organizations/invitation_routes.ts";
import type { MemberAnswer } from "../../organizations/member_routes.ts";
import type { OrganizationAnswer } from "../../organizations/routes.ts";
import type { AcceptedPrincipalAnswer } from "../../platforms/accepted_principal_routes.ts";
import type { AccountAgentAnswer } from "../../platforms/agents/account_agents_routes.ts";
import type { RotatedKey } from "../../platforms/api_keys/rotate_key.ts";
import type { ConnectionAnswer } from "../../platforms/connections/connection_key_routes.ts";
import type { AdoptionAnswer } from "../../platforms/declared/adoption_routes.ts";
import type { AgentAnswer, PlatformAnswer, RegisteredAnswer } from "../../platforms/platform_answers.ts";
import type { TryAnswer } from "../../proofs/try/try_route.ts";
import type { MemberRole } from "../../route.ts";

type Delivery = z.infer<typeof deliveryAnswer>;
type Recovery = z.infer<typeof recoveryAnswer>;

type PageOf<Item> = { items: Item[]; next_cursor: string | null };

/** The answers of API operations, by operation id. Each operation that a page declares needs an entry. */
export type Answers = {
  get_session: SessionAnswer;
  send_address_codes: { status: string };
  change_address: { email: string };
  undo_address_change: { email: string };
  change_profile: { first_name: string; last_name: string };
  list_sessions: SessionsAnswer;
  end_session: { session_id: string };
  get_mail_choices: MailChoicesAnswer;
  change_mail_choices: MailChoicesAnswer;
  stop_mails: StoppedAnswer;
  get_request_channel: ChannelAnswer;
  set_request_channel: ChannelAnswer;
  remove_request_channel: { removed: true };
  get_credits: CreditsAnswer;
  list_delegation_requests: PageOf<RequestAnswer>;
  get_delegation_request: RequestAnswer;
  request_delegation: Pick<RequestAnswer, "request_id">;
  preview_delegation_approval: PreviewAnswer;
  approve_delegation_request: { cert_id: string };
  deny_delegation_request: { status: string };
  get_delegation: CertificateAnswer;
  list_scopes: ScopesAnswer;
  list_delegations: PageOf<CertificateAnswer>;
  try_proof: TryAnswer;
  check_delegation: ChainAnswer;
  get_delegation_use: UseAnswer;
  revoke_delegation: { status: string };
  list_account_agents: PageOf<AccountAgentAnswer>;
  get_account_agent: AccountAgentAnswer;
  delete_agent: { disabled_at: string };
  get_agent_adoption: AdoptionAnswer;
  confirm_agent_adoption: NonNullable<AdoptionAnswer["adoption"]>;
  withdraw_agent_adoption: { confirmed: false };
  list_audit_events: HistoryAnswer;
  count_decisions: DailyCounts;
  export_audit_events: ExportAnswer;
  get_audit_event: EventAnswer;
  get_receipt: ReceiptAnswer;
  check_receipt: ReceiptCheckAnswer;
  get_callback: z.infer<typeof callbackAnswer>;
  set_callback: { callback_url: string | null };
  pause_callback: { callback_state: string };
  resume_callback: { callback_state: string };
  test_callback: { delivery_id: string };
  rotate_webhook_secret: { webhook_signing_secret: string };
  promote_webhook_secret: { former_expires_at: string | null };
  list_deliveries: PageOf<Delivery>;
  get_delivery: z.infer<typeof wholeDeliveryAnswer>;
  resend_delivery: Delivery;
  recover_deliveries: Recovery;
  list_recoveries: PageOf<Recovery>;
  send_code: { status: string };
  verify_code: { onboarding_step: string };
  refresh_session: { expires_at: string };
  logout: { status: string };
  set_profile: { onboarding_step: string };
  set_account_type: { onboarding_step: string };
  list_platforms: PageOf<PlatformAnswer>;
  get_platform: PlatformAnswer;
  register_platform: RegisteredAnswer;
  register_personal_platform: RegisteredAnswer;
  change_platform: PlatformAnswer;
  publish_platform: PlatformAnswer;
  unpublish_platform: PlatformAnswer;
  list_organization_domains: { domains: OrganizationDomainAnswer[] };
  get_platform_adoption: AdoptionAnswer;
  confirm_platform_adoption: NonNullable<AdoptionAnswer["adoption"]>;
  withdraw_platform_adoption: { confirmed: false };
  list_accepted_principals: PageOf<AcceptedPrincipalAnswer>;
  accept_principal: AcceptedPrincipalAnswer;
  end_accepted_principal: { accepted: false };
  get_connection: ConnectionAnswer;
  change_connection: { connection_id: string };
  remove_connection: { removed_at: string };
  rotate_api_key: RotatedKey;
  end_former_api_keys: { ended: string[] };
  list_agents: PageOf<AgentAnswer>;
  list_namespace_bindings: { namespace_bindings: NamespaceBindingAnswer[] };
  accept_namespace_binding: NamespaceBindingAnswer;
  end_namespace_binding: { accepted: false };
  list_cluster_approvers: { cluster_approvers: ClusterApproverAnswer[] };
  link_cluster_approver: ClusterApproverAnswer;
  unlink_cluster_approver: { linked: false };
  get_organization: OrganizationAnswer;
  change_organization: OrganizationAnswer;
  list_organization_members: { members: MemberAnswer[] };
  change_organization_member: MemberAnswer;
  remove_organization_member: { account_id: string };
  leave_organization: { account_id: string };
  invite_organization_member: InvitationAnswer;
  list_invitations: { invitations: InvitationAnswer[] };
  withdraw_invitation: { invitation_id: string };
  read_invitation: ReadInvitationAnswer;
  accept_invitation: { account_id: string; role: MemberRole };
  add_organization_domain: OrganizationDomainAnswer;
  verify_organization_domain: OrganizationDomainAnswer;
  remove_organization_domain: { domain: string };
  list_organization_activity: ActivityAnswer;
  get_installation_part: PartAnswer;
  list_suspended_endpoints: SuspendedAnswer;
};

/** An operation that pages may call. */
export type OperationId = keyof Answers;

/** The input of a call. With `once`, the call sends the idempotency key that the form contained. */
export type CallInput = {
  params?: Record<string, string>;
  query?: Record<string, string | undefined>;
  body?: unknown;
  once?: true;
};

/**
 * Calls an API operation for the person who requested the page. Uses their cookies, the CSRF token of their
 * form, and the account that they act for. Throws `ApiError` if the API refuses the call.
 */
export type Call = <Id extends OperationId>(id: Id, input?: CallInput) => Promise<Answers[Id]>;
