/* A PKCS#11 module in front of SoftHSM that behaves like an HSM: it counts wrong PINs, sets the flags that
 * PKCS#11 defines for them, and locks the PIN after three. Its files are in the folder $HSM_DIR:
 *   tries      one letter for each C_Login: r right, w wrong, l refused because the PIN is locked
 *   C_…        a fault of this function: "<CK_RV> <milliseconds to wait>"
 *   flags      token flags to add
 *   serial     another serial number
 *   second     adds a slot: "<CK_RV of its C_GetTokenInfo>"; 0 shows the real token again */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long ulong;
typedef struct { unsigned char version[2]; void *f[68]; } functions;
/* Positions in the function list. */
enum { INITIALIZE = 0, GET_INFO = 2, GET_FUNCTION_LIST = 3, GET_SLOT_LIST = 4, GET_TOKEN_INFO = 6 };
enum { LOGIN = 18, LOGOUT = 19, SIGN = 43 };
enum { LOCK_AFTER = 3, SECOND_SLOT = 0x5ec0d };
#define CKR_PIN_INCORRECT 0xa0ul
#define CKR_PIN_LOCKED 0xa4ul
#define CKR_USER_ALREADY_LOGGED_IN 0x100ul
#define SERIAL_AT 80
#define FLAGS_AT 96

static functions real, ours;

static FILE *at(const char *name, const char *mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", getenv("HSM_DIR"), name);
  return fopen(path, mode);
}

static int numbers(const char *name, ulong *first, ulong *second) {
  FILE *file = at(name, "r");
  if (!file) return 0;
  int found = fscanf(file, "%li %lu", (long *)first, second);
  fclose(file);
  return found > 0;
}

static ulong fault(const char *name) {
  ulong rv = 0, ms = 0;
  if (numbers(name, &rv, &ms) && ms) usleep(ms * 1000);
  return rv;
}

/* Returns the number of wrong PINs since the last right one. */
static int wrong(void) {
  FILE *file = at("tries", "r");
  int count = 0;
  for (int c; file && (c = fgetc(file)) != EOF;) count = c == 'r' ? 0 : count + (c == 'w');
  if (file) fclose(file);
  return count;
}

static ulong initialize(void *args) {
  ulong rv = fault("C_Initialize"), done = ((ulong (*)(void *))real.f[INITIALIZE])(args);
  return rv ? rv : done;
}

static ulong get_info(unsigned char *info) {
  ulong rv = ((ulong (*)(unsigned char *))real.f[GET_INFO])(info);
  memcpy(info + 2, "Counting", 8); /* the manufacturer */
  return rv;
}

static ulong get_slot_list(unsigned char present, ulong *slots, ulong *count) {
  ulong rv = fault("C_GetSlotList"), ignored, room = *count;
  if (rv == 0xe0) return *count = 0; /* the token is away */
  if (rv) return rv;
  ulong done = ((ulong (*)(unsigned char, ulong *, ulong *))real.f[GET_SLOT_LIST])(present, slots, count);
  if (done || !numbers("second", &ignored, &ignored)) return done;
  if (slots && *count < room) {
    memmove(slots + 1, slots, *count * sizeof *slots);
    slots[0] = SECOND_SLOT;
  }
  *count += 1;
  return done;
}

static ulong get_token_info(ulong slot, unsigned char *info) {
  ulong rv = fault("C_GetTokenInfo"), second = 0, added = 0, ignored;
  if (rv) return rv;
  if (slot == SECOND_SLOT) {
    numbers("second", &second, &ignored);
    if (second) return second;
    ulong slots[64], count = 64;
    ((ulong (*)(unsigned char, ulong *, ulong *))real.f[GET_SLOT_LIST])(1, slots, &count);
    slot = slots[0];
  }
  rv = ((ulong (*)(ulong, unsigned char *))real.f[GET_TOKEN_INFO])(slot, info);
  FILE *serial = at("serial", "r");
  for (int c, i = SERIAL_AT; serial && i < FLAGS_AT && (c = fgetc(serial)) != EOF;) info[i++] = c;
  if (serial) fclose(serial);
  ulong *flags = (ulong *)(info + FLAGS_AT);
  int count = wrong();
  numbers("flags", &added, &ignored);
  *flags = (*flags & ~0xf0000ul) | added | (count ? 0x10000 : 0) | (count == LOCK_AFTER - 1 ? 0x20000 : 0) |
           (count >= LOCK_AFTER ? 0x40000 : 0);
  return rv;
}

static ulong login(ulong session, ulong user, unsigned char *pin, ulong length) {
  ulong (*next)(ulong, ulong, unsigned char *, ulong) = real.f[LOGIN];
  ulong shared = 0, ignored;
  if (user != 1) return next(session, user, pin, length);
  numbers("C_Login", &shared, &ignored);
  if (shared == CKR_USER_ALREADY_LOGGED_IN) { /* somebody else has logged in, so no PIN is checked */
    next(session, user, pin, length);
    return shared;
  }
  int locked = wrong() >= LOCK_AFTER;
  ulong rv = locked ? CKR_PIN_LOCKED : next(session, user, pin, length);
  FILE *tries = at("tries", "a");
  fputc(locked ? 'l' : rv == CKR_PIN_INCORRECT ? 'w' : 'r', tries);
  fclose(tries);
  ulong faulty = fault("C_Login");
  return faulty ? faulty : rv;
}

/* Ends the login that somebody else made. */
static ulong logout(ulong session) {
  char path[4096];
  snprintf(path, sizeof path, "%s/C_Login", getenv("HSM_DIR"));
  unlink(path);
  ((ulong (*)(ulong))real.f[LOGOUT])(session);
  return 0;
}

static ulong sign(ulong session, unsigned char *data, ulong length, unsigned char *mac, ulong *room) {
  ulong rv = fault("C_Sign");
  return rv ? rv : ((ulong (*)(ulong, unsigned char *, ulong, unsigned char *, ulong *))real.f[SIGN])(
      session, data, length, mac, room);
}

ulong C_GetFunctionList(functions **list) {
  void *module = dlopen(getenv("HSM_MODULE"), RTLD_NOW);
  ulong (*get)(functions **) = module ? dlsym(module, "C_GetFunctionList") : NULL;
  functions *found;
  if (!get || get(&found)) return 5;
  ours = real = *found;
  ours.f[INITIALIZE] = initialize;
  ours.f[GET_INFO] = get_info;
  ours.f[GET_FUNCTION_LIST] = C_GetFunctionList;
  ours.f[GET_SLOT_LIST] = get_slot_list;
  ours.f[GET_TOKEN_INFO] = get_token_info;
  ours.f[LOGIN] = login;
  ours.f[LOGOUT] = logout;
  ours.f[SIGN] = sign;
  *list = &ours;
  return 0;
}
