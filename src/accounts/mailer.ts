/** One mail, as text. With an `id` it has the same Message-ID each time that it is sent. */
export type Mail = { id?: string; to: string; subject: string; text: string };

/** Sends mail. */
export type Mailer = {
  /** Resolves when the mail was taken over for delivery, rejects when it was not. */
  send(mail: Mail): Promise<void>;
  close(): void;
};
