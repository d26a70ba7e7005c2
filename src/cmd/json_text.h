/* SPDX-License-Identifier: MIT */
/* json_text: strings as JSON, whatever bytes they hold. */
#pragma once

#include <stdio.h>

/*
 * In quotes. What is no UTF-8 becomes U+FFFD; "<" is escaped, so that the text may stand inside a <script> of a page
 * (RFC 8259, and the HTML standard on script data).
 */
void json_put_string(FILE *to, const char *text);
