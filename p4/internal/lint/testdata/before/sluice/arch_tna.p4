// The architecture: Tofino 1 unless the compiler is for Tofino 2.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif
