import type { Page } from "./core/page.ts";
import { accountPage } from "./pages/account/account.ts";
import { agentAdoptionPage } from "./pages/agents/adoption.ts";
import { agentPage } from "./pages/agents/agent.ts";
import { agentsPage } from "./pages/agents/agents.ts";
import { deleteAgentPage } from "./pages/agents/delete_agent.ts";
import { callbackPage } from "./pages/callbacks/callback.ts";
import { webhookSecretPage } from "./pages/callbacks/webhook_secret.ts";
import { clusterNamespacePage } from "./pages/clusters/cluster_namespace.ts";
import { clustersPage } from "./pages/clusters/clusters.ts";
import { changeConnectionPage } from "./pages/connections/change_connection.ts";
import { connectionPage } from "./pages/connections/connection.ts";
import { removeConnectionPage } from "./pages/connections/remove_connection.ts";
import { rotateKeyPage } from "./pages/connections/rotate_key.ts";
import { creditPage } from "./pages/credit/credit.ts";
import { certificateFilePage } from "./pages/delegations/certificate_file.ts";
import { delegationPage } from "./pages/delegations/delegation.ts";
import { delegationsPage } from "./pages/delegations/delegations.ts";
import { revokePage } from "./pages/delegations/revoke.ts";
import { deliveriesPage } from "./pages/deliveries/deliveries.ts";
import { deliveryPage } from "./pages/deliveries/delivery.ts";
import { recoveriesPage } from "./pages/deliveries/recoveries.ts";
import { checkReceiptPage } from "./pages/history/check_receipt.ts";
import { eventPage } from "./pages/history/event.ts";
import { exportPage } from "./pages/history/export.ts";
import { historyPage } from "./pages/history/history.ts";
import { receiptFilePage } from "./pages/history/receipt_file.ts";
import { homePage } from "./pages/home/home.ts";
import { acceptInvitationPage } from "./pages/organization/accept_invitation.ts";
import { activityPage } from "./pages/organization/activity.ts";
import { domainPage } from "./pages/organization/domain.ts";
import { domainsPage } from "./pages/organization/domains.ts";
import { invitationPage } from "./pages/organization/invitation.ts";
import { invitePage } from "./pages/organization/invite.ts";
import { leavePage } from "./pages/organization/leave.ts";
import { memberPage } from "./pages/organization/member.ts";
import { organizationPage } from "./pages/organization/organization.ts";
import { organizationSettingsPage } from "./pages/organization/settings.ts";
import { acceptedIdentitiesPage } from "./pages/platforms/accepted_identities.ts";
import { platformAdoptionPage } from "./pages/platforms/adoption.ts";
import { changePlatformPage } from "./pages/platforms/change_platform.ts";
import { newPlatformPage } from "./pages/platforms/new_platform.ts";
import { platformPage } from "./pages/platforms/platform.ts";
import { platformsPage } from "./pages/platforms/platforms.ts";
import { askPage } from "./pages/requests/ask.ts";
import { requestPage } from "./pages/requests/request.ts";
import { requestsPage } from "./pages/requests/requests.ts";
import { servicePage, suspendedPage } from "./pages/service.ts";
import { enterCodePage } from "./pages/session/enter_code.ts";
import { renewPage } from "./pages/session/renew.ts";
import { signInPage } from "./pages/session/sign_in.ts";
import { signOutPage } from "./pages/session/sign_out.ts";
import { tryItPage } from "./pages/try_it/try_it.ts";
import { welcomeAccountPage, welcomeNamePage } from "./pages/welcome/welcome.ts";

/** Every page of the console: what is served and tested is this list. */
export const consolePages: readonly Page[] = [
  homePage,
  requestsPage,
  requestPage,
  tryItPage,
  historyPage,
  exportPage,
  eventPage,
  receiptFilePage,
  checkReceiptPage,
  callbackPage,
  webhookSecretPage,
  deliveriesPage,
  deliveryPage,
  recoveriesPage,
  platformsPage,
  newPlatformPage,
  platformPage,
  changePlatformPage,
  acceptedIdentitiesPage,
  platformAdoptionPage,
  connectionPage,
  rotateKeyPage,
  changeConnectionPage,
  removeConnectionPage,
  clustersPage,
  clusterNamespacePage,
  accountPage,
  creditPage,
  organizationPage,
  organizationSettingsPage,
  memberPage,
  invitePage,
  invitationPage,
  leavePage,
  acceptInvitationPage,
  domainsPage,
  domainPage,
  activityPage,
  delegationsPage,
  delegationPage,
  revokePage,
  certificateFilePage,
  agentsPage,
  agentPage,
  agentAdoptionPage,
  deleteAgentPage,
  askPage,
  signInPage,
  enterCodePage,
  renewPage,
  signOutPage,
  welcomeNamePage,
  welcomeAccountPage,
  servicePage,
  suspendedPage,
];
