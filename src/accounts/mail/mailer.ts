/** One mail, as text. With an `id` it has the same Message-ID each time that it is sent. */
export type Mail = { id?: string; to: string; subject: string; text: string };

/** Sends mail. */
export type Mailer = {
  /**
   * Resolves when the mail was taken over for delivery, rejects when it was not. When that cannot be known,
   * because the connection ended after the text was begun, it rejects with an error that has `inDoubt: true`.
   */
  send(mail: Mail): Promise<void>;
  close(): void;
};
