/* The Tofino Native Architecture: what package run has of it, and the names of the rest. */
#ifndef _TNA_P4_
#define _TNA_P4_

#ifndef __TARGET_TOFINO__
#define __TARGET_TOFINO__ 1
#endif

#if __TARGET_TOFINO__ == 1
#include <tofino1_specs.p4>
#elif __TARGET_TOFINO__ == 2
#include <tofino2_specs.p4>
#else
#error __TARGET_TOFINO__ is neither 1 nor 2
#endif
#include <tofino1_arch.p4>

#endif
