import { REASONS, span } from "./en_decisions.ts";
import { FOREIGN } from "./en_errors.ts";

/** The console's English. A translation is another value of the same type. */
export const en = {
  language: "en",
  name: "Deputize",
  skip: "To the content",
  navigation: { label: "Main", home: "Home" },
  notices: {
    code_sent: "We sent you a code.",
    signed_out: "You are signed out.",
    renewed: "Your session goes on.",
    welcome: "Your account is ready.",
    approved: "Approved. The agent can use it from now on.",
    denied: "Denied.",
  },
  signIn: {
    title: "Sign in or sign up",
    lead: "Give your e-mail address. We send you a code; there is no password.",
    email: "E-mail address",
    emailHint: "The first time, this opens your account.",
    submit: "Send me a code",
    haveCode: "I have a code",
    notAnAddress: "Check the address: it should look like name@example.com",
  },
  code: {
    title: "Enter your code",
    lead: (email: string) => `We sent a code to ${email}. It can be used once, within 10 minutes.`,
    leadUnknown: "The code is in the mail that we sent you.",
    code: "Code",
    codeHint: "Six digits, or the long code of a sign-in link.",
    submit: "Sign in",
    again: "Send another code",
    notACode: "A code has six digits, or the 32 characters of a sign-in link",
  },
  renew: {
    title: "Continue your session",
    lead: "For your safety a session lasts 15 minutes. Continue where you were.",
    submit: "Continue",
    signIn: "Sign in as somebody else",
  },
  kept: {
    endedTitle: "Your session has ended",
    ended: "What you entered is kept. Continue, and send it again.",
    renew: "Continue",
    title: "Send it again?",
    explain:
      "Your session was renewed after you opened that page. What you entered is kept and was not sent yet.",
    again: "Send it now",
    discard: "Discard it",
  },
  sessionEnd: {
    label: "Session",
    soon: "Your session ends in less than two minutes.",
    renew: "Stay signed in",
    renewed: "Your session goes on for 15 minutes.",
    over: "Your session has ended. What you have entered is kept when you send it.",
  },
  signOut: {
    button: "Sign out",
    title: "Sign out",
    lead: "Sign out of this browser, or everywhere you are signed in.",
    where: "Where",
    here: "Here only",
    everywhere: "Everywhere",
  },
  profile: {
    title: "Your name",
    lead: "Step 1 of 2. People see your name where you approve something.",
    first: "First name",
    last: "Last name",
    submit: "Continue",
  },
  account: {
    title: "Your account",
    lead: "Step 2 of 2. For whom will you approve what agents may do? This cannot be changed later.",
    type: "Account type",
    individual: "For myself",
    individualHint: "Your own agents and one platform.",
    organization: "For an organization",
    organizationHint: "An account that belongs to a company or a team.",
    organizationName: "Name of the organization",
    organizationNameHint: "Only for an organization.",
    submit: "Open the account",
  },
  home: {
    title: (name: string) => (name === "" ? "Home" : `Hello, ${name}`),
    waiting: (number: number, more: boolean) =>
      number === 0
        ? "Nothing waits for you"
        : `${number}${more ? " or more" : ""} ${number === 1 ? "request waits" : "requests wait"} for you`,
    nothingWaits: "Requests of your agents come up here. You approve, narrow or deny each of them.",
    asks: (scopes: number) => `An agent asks for ${scopes === 1 ? "one scope" : `${scopes} scopes`}`,
    since: "since",
    active: (number: number) =>
      number === 100 ? "100 active delegations or more" : `Active delegations: ${number}`,
    nothingActive: "No agent may do anything for you at the moment.",
    forever: "without an end",
    until: "until",
    denied: "Denied lately",
    nothingDenied: "Nothing was denied.",
    credit: "Credit",
    balance: (usd: string) => `${usd} US dollars`,
    decisionsLeft: (number: number) =>
      `Enough for ${number.toLocaleString("en")} ${number === 1 ? "decision" : "decisions"}.`,
    lasts(days: number) {
      if (days === Number.POSITIVE_INFINITY) return "Nothing was used in the last 7 days.";
      if (days < 1) return "At the rate of the last 7 days it lasts less than a day.";
      const whole = Math.floor(days);
      return `At the rate of the last 7 days it lasts ${whole > 999 ? "more than 999" : whole} ${whole === 1 ? "day" : "days"}.`;
    },
    low: "Your credit runs low. Ask who runs this service for more: decisions end when it is used up.",
    decisions: "Decisions of the last two weeks",
    notCounted: "There are too many to be counted just now.",
  },
  request: {
    title: {
      pending: "An agent asks you",
      approved: "You approved this request",
      denied: "This request was denied",
      expired: "This request has expired",
      withdrawn: "This request was withdrawn",
    },
    agent: "Agent",
    reason: "Reason given",
    asked: "Asked",
    ends: "Ends",
    lasting: (seconds: number | null) =>
      seconds === null ? "without an end" : `${span(seconds)} after you approve`,
    constraints: "Constraints",
    decided: "Decided",
    approveTitle: "Approve",
    scopes: "What it may do",
    scopesHint: "Untick what it may not do.",
    approve: "Approve what is ticked",
    denyTitle: "Deny",
    denyReason: "Reason",
    denyHint: "The application is told. You may leave it empty.",
    deny: "Deny the request",
  },
  decisions: {
    chart: "Decisions by day and result; days in UTC",
    asTable: "As a table",
    day: "Day",
    allow: "Allowed",
    deny: "Denied",
    indeterminate: "Not decided",
    reasons: REASONS,
  },
  errors: FOREIGN,
};

/** The texts of the console in one language. */
export type Texts = typeof en;
