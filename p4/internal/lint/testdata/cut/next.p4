// A stack's next in a state that two ways lead to.
#define EGRESS_PARSER
#include "frame.p4"

parser EgressParser(packet_in pkt, out headers_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        pkt.extract(eg_intr_md);
        pkt.extract(hdr.mac);
        transition select(hdr.mac.ether_type) {
            0x1000: parse_1;
            0x2000: parse_2;
            0x3000: parse_3;
            default: accept;
        }
    }

    state parse_3 {
        pkt.extract(hdr.blocks.next);
        transition parse_2;
    }

    state parse_2 {
        pkt.extract(hdr.blocks.next); // warns: hdr.blocks.next in state parse_2 is element 0 or 1
        transition parse_1;
    }

    state parse_1 {
        pkt.extract(hdr.blocks.next); // warns: hdr.blocks.next in state parse_1 is element 0 or 2
        transition accept;
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
