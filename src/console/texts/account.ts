/** Texts of the pages with which a person changes the address of their account. */
export const ADDRESS_TEXTS = {
  link: "Change your e-mail address",
  title: "Your e-mail address",
  lead: "You sign in with this address. To change it, you enter two codes: one from a mail to each address.",
  present: "Address now",
  newAddress: "New e-mail address",
  send: "Send the codes",
  enterTitle: "Enter both codes",
  enterLead: (email: string) =>
    `We sent a code to ${email}, and another one to the address that you have now. They can be used once, within 30 minutes.`,
  code: "Code from the mail to the address that you have now",
  newCode: "Code from the mail to the new address",
  codeHint: "Eight digits.",
  notACode: "A code has eight digits",
  change: "Change the address",
  effect:
    "All your other sign-ins end. The former address gets a mail, with which its reader can put it back for 7 days. An invitation to the former address is no longer valid, and clusters must name the new address.",
  again: "Send other codes",
  undoTitle: "Put the former address back?",
  undoLead:
    "Your account gets the address back to which the mail with this link was sent. Every sign-in of the account ends. Then sign in with that address.",
  undoCode: "Code in the link of the mail",
  undoCodeHint: "64 characters, after “code=”. Most browsers fill it in.",
  undo: "Put it back",
  undoneTitle: "The former address is back",
  undone: (email: string) =>
    `Sign in with ${email}. Then look at what was approved in your name, and at the platforms and agents of your account.`,
  signIn: "Sign in",
};
