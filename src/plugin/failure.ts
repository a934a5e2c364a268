/** Something that a person can correct: the message says what. */
export class Failure extends Error {}

/** A command that cannot be understood. */
export class UsageFailure extends Failure {}
