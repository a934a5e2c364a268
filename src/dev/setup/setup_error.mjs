/** What a person has to correct before anything can start: one sentence, and what to do. */
export class SetupError extends Error {
  /**
   * @param {string} message
   * @param {string} remedy
   */
  constructor(message, remedy) {
    super(message);
    this.remedy = remedy;
  }
}
