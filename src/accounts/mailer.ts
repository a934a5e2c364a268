/** One mail, as text. */
export type Mail = { to: string; subject: string; text: string };

/** Sends mail. */
export type Mailer = {
  /** Resolves when the mail was taken over for delivery, rejects when it was not. */
  send(mail: Mail): Promise<void>;
  close(): void;
};
