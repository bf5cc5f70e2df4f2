/* Shared by the wire fuzzers. Input: a control byte or two, then the bytes for the codec. */
#ifndef BROME_FUZZ_WIRE_H
#define BROME_FUZZ_WIRE_H

#include "base/arena.h"
#include "base/buf.h"
#include "hold.h"

#endif
