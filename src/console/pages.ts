import type { Page } from "./core/page.ts";
import { accountPage, deleteAccountPage, namePage } from "./pages/account.ts";
import { addressPage, undoAddressPage } from "./pages/address.ts";
import { agentAdoptionPage, platformAdoptionPage } from "./pages/adoption.ts";
import { agentPage, deleteAgentPage } from "./pages/agent.ts";
import { agentsPage } from "./pages/agents.ts";
import { appearancePage } from "./pages/appearance.ts";
import { channelPage } from "./pages/channel.ts";
import { clusterNamespacePage } from "./pages/cluster_namespace.ts";
import { clustersPage } from "./pages/clusters.ts";
import { connectPage, connectRefusedPage } from "./pages/connect/connect.ts";
import { customerPage, customersPage } from "./pages/connect/customers.ts";
import { productPage, productsPage } from "./pages/connect/products.ts";
import { proposalPage, proposalsPage } from "./pages/connect/proposals.ts";
import { creditPage } from "./pages/credit.ts";
import { certificateFilePage, delegationPage } from "./pages/delegations/delegation.ts";
import { delegationsPage } from "./pages/delegations/delegations.ts";
import { revokePage } from "./pages/delegations/revoke.ts";
import { revokeManyPage } from "./pages/delegations/revoke_many.ts";
import { activityExportPage, activityPage } from "./pages/history/activity.ts";
import { eventPage } from "./pages/history/event.ts";
import { exportPage } from "./pages/history/export.ts";
import { historyPage } from "./pages/history/history.ts";
import { checkReceiptPage, receiptFilePage } from "./pages/history/receipts.ts";
import { homePage } from "./pages/home.ts";
import { stopMailsPage } from "./pages/mails.ts";
import { domainPage, domainsPage } from "./pages/organization/domains.ts";
import { acceptInvitationPage, invitationPage, invitePage } from "./pages/organization/invitations.ts";
import { leavePage, memberPage } from "./pages/organization/members.ts";
import { organizationPage, organizationSettingsPage } from "./pages/organization/organization.ts";
import { acceptedIdentitiesPage } from "./pages/platforms/accepted_identities.ts";
import { changeConnectionPage, connectionPage, removeConnectionPage } from "./pages/platforms/connection.ts";
import { platformPage } from "./pages/platforms/platform.ts";
import { changePlatformPage, newPlatformPage } from "./pages/platforms/platform_forms.ts";
import { platformsPage } from "./pages/platforms/platforms.ts";
import { rotateKeyPage } from "./pages/platforms/rotate_key.ts";
import { signingSecretPage } from "./pages/platforms/signing_secret.ts";
import { requestPage } from "./pages/requests/request.ts";
import { askPage, requestsPage } from "./pages/requests/requests.ts";
import { servicePage, suspendedPage } from "./pages/service.ts";
import { renewPage, signOutPage } from "./pages/session.ts";
import { enterCodePage, signInPage } from "./pages/sign_in.ts";
import { tryItPage } from "./pages/try_it/try_it.ts";
import { callbackPage } from "./pages/webhooks/callback.ts";
import { deliveriesPage } from "./pages/webhooks/deliveries.ts";
import { deliveryPage } from "./pages/webhooks/delivery.ts";
import { recoveriesPage } from "./pages/webhooks/recoveries.ts";
import { webhookSecretPage } from "./pages/webhooks/webhook_secret.ts";
import { welcomeAccountPage, welcomeNamePage } from "./pages/welcome.ts";

/** All pages of the console. The server and the tests use this list. */
export const consolePages: readonly Page[] = [
  homePage,
  requestsPage,
  channelPage,
  requestPage,
  tryItPage,
  historyPage,
  exportPage,
  eventPage,
  receiptFilePage,
  checkReceiptPage,
  activityPage,
  activityExportPage,
  callbackPage,
  webhookSecretPage,
  deliveriesPage,
  deliveryPage,
  recoveriesPage,
  platformsPage,
  newPlatformPage,
  platformPage,
  changePlatformPage,
  signingSecretPage,
  acceptedIdentitiesPage,
  platformAdoptionPage,
  connectionPage,
  rotateKeyPage,
  changeConnectionPage,
  removeConnectionPage,
  clustersPage,
  clusterNamespacePage,
  accountPage,
  appearancePage,
  namePage,
  addressPage,
  deleteAccountPage,
  undoAddressPage,
  stopMailsPage,
  creditPage,
  connectPage,
  connectRefusedPage,
  productsPage,
  productPage,
  proposalsPage,
  proposalPage,
  customersPage,
  customerPage,
  organizationPage,
  organizationSettingsPage,
  memberPage,
  invitePage,
  invitationPage,
  leavePage,
  acceptInvitationPage,
  domainsPage,
  domainPage,
  delegationsPage,
  // This page precedes the page about one delegation, whose path would also match.
  revokeManyPage,
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
