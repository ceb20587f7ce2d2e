// What looks like several operations, and is one.
#define OWN_EGRESS
#include "frame.p4"

control Egress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    action subtract() {
        meta.x = hdr.value.a - 7;
    }

    action compare() {
        meta.y = meta.x |-| hdr.value.b;
    }

    action hashed() {
        @in_hash { hdr.value.b = hdr.value.a ^ hdr.value.b ^ meta.x; }
    }

    table t {
        key = { hdr.mac.dst : exact; }
        actions = { hashed; }
        default_action = hashed();
    }

    apply {
        t.apply();
        // Each action that is called is a table of its own.
        subtract();
        compare();
        if (meta.y != 0 && hdr.value.code & 3 != 0) {
            hdr.mac.ether_type = hdr.mac.ether_type + 20 - 4;
        }
        hdr.value.b = hdr.value.b & ~hdr.value.a;
        meta.z = hdr.blocks[0].word >> 16;
        meta.small = (bit<8>)(hdr.blocks[0].word ^ (meta.z << 16));
        meta.small = meta.small + 1;
        hdr.value.a = hdr.value.a |-| 0;
        hdr.value.a = min(hdr.value.a, meta.x);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
