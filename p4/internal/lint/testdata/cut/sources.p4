// A byte with too many sources.
#define OWN_EGRESS
#include "frame.p4"

control Egress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    action mixed() {
        hdr.value.wide = (bit<20>)hdr.blocks[0].word;
        hdr.value.low = 5; // warns: hdr.value.low and hdr.value.wide share a byte
    }

    action constants() {
        hdr.value.kind = 1;
        hdr.value.code = 2;
        hdr.value.a = hdr.value.b;
    }

    table t {
        key = { hdr.mac.dst : exact; }
        actions = { mixed; constants; }
        default_action = constants();
    }

    apply {
        t.apply();
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
