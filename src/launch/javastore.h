/* A Java trust store (JKS, the format every Java since 1.2 reads), written directly: keytool would take a second of every first start. */
#ifndef BROME_LAUNCH_JAVASTORE_H
#define BROME_LAUNCH_JAVASTORE_H

#include "base/buf.h"
#include "base/err.h"

/* Appends a store with every certificate of the PEM bundle; password "changeit", Java's default. 0 or -1. */
int javastore_make(struct buf *out, struct slice bundle, struct err *err) __attribute__((warn_unused_result));

#endif
