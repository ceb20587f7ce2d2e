/* The Tofino 2 Native Architecture. */
#ifndef _T2NA_P4_
#define _T2NA_P4_

#ifndef __TARGET_TOFINO__
#define __TARGET_TOFINO__ 2
#endif

#if __TARGET_TOFINO__ != 2
#error t2na.p4 is for Tofino 2: give -D __TARGET_TOFINO__=2
#endif
#include <tofino2_specs.p4>
#include <tofino2_arch.p4>

#endif
