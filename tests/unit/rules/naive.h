/* A slow matcher that follows the language's description rule by rule, to hold the compiled one against. Shares no code with it but the parser. */
#ifndef BROME_TESTS_RULES_NAIVE_H
#define BROME_TESTS_RULES_NAIVE_H

#include "rules/policy.h"

void naive_flow(const struct policy *p, const struct policy_flow_query *q, struct policy_verdict *v);
void naive_opaque(const struct policy *p, const struct policy_flow_query *q, struct policy_verdict *v);
void naive_request(const struct policy *p, const struct policy_request_query *q, struct policy_verdict *v);
/* By asking naive_flow for every port that a rule's range begins or ends at, and its neighbours. */
bool naive_name_possible(const struct policy *p, struct slice name);
/* Backtracking glob. */
bool naive_glob(struct slice pattern, struct slice path, bool sure);

/* By regular expressions; `path` is what stands behind the rule's prefix. */
bool naive_profile(enum policy_profile profile, struct slice path, const struct policy_request_query *q);

/* Makes a rule set and queries out of the bytes and compares everything; prints and returns -1 on a difference, 1 when the set was refused, else 0. */
int differ_run(const uint8_t *bytes, size_t n);

#endif
