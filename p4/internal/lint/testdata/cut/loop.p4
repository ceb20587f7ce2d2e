// A stack's next in a loop, which the compiler unrolls, and in a state that all ways
// reach with as many extracted.
#define EGRESS_PARSER
#include "frame.p4"

parser EgressParser(packet_in pkt, out headers_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        pkt.extract(eg_intr_md);
        pkt.extract(hdr.mac);
        transition select(hdr.mac.ether_type) {
            0x1000: parse_block;
            default: accept;
        }
    }

    state parse_block {
        pkt.extract(hdr.blocks.next);
        transition select(hdr.blocks.last.word) {
            0: accept;
            default: parse_block;
        }
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
