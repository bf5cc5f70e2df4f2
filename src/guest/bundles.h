/* Where programs look for the certificates that they trust: brome-launch makes these names for a namespace, a machine's first process for its system disk. */
#ifndef BROME_GUEST_BUNDLES_H
#define BROME_GUEST_BUNDLES_H

#define TRUST_BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define TRUST_OWN "/etc/ssl/certs/brome.pem"
#define TRUST_ADDED "/usr/local/share/ca-certificates/brome.crt" /* what update-ca-certificates puts into the bundle */

/* Debian, Fedora (two), Alpine, openSUSE: the bundle, and the other names of it. */
#define TRUST_OTHER_BUNDLES "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem"

#endif
