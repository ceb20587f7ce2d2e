// The architecture: Tofino 1 unless the compiler is for Tofino 2.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
// The egress parser reads 160 bytes: IPv6 with a VLAN tag, six records and the BTH are
// 157, with the chip's metadata.
#ifndef INT_HOPS
#define INT_HOPS 6
#endif
#if INT_HOPS != 6
#error INT_HOPS must be 6 on Tofino 1
#endif
#endif
