// SPDX-License-Identifier: Apache-2.0
// The targets of the acts. run.py replaces this text, whose targets do not exist, with one of its
// own.
#pragma once

#define STATE "/nonexistent"     // the daemon's state folder, with other things planted in it
#define OUTSIDE "/nonexistent"   // a folder of the test outside of it
#define HOME_DIR "/nonexistent"  // what the daemon has for HOME
#define SOCKET "/nonexistent"    // the daemon's own socket
#define NONCE "none"             // part of the name of whatever an act makes
#define SECRET "none"            // in an environment variable of the daemon's
#define DAEMON getpid()
#define LISTENER 9               // a port of the loopback interface
#define BOMB_BYTES (1ULL << 20)  // where an act that takes memory or disk stops by itself
#define SECONDS 1                // when what an act leaves running ends by itself
