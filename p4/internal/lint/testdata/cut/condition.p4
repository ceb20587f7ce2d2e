// A condition that computes.
#define OWN_EGRESS
#include "frame.p4"

control Egress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    apply {
        meta.x = hdr.value.a |-| hdr.value.b;
        if (meta.x != 0) { // warns: compares what is computed in line 10
            hdr.value.kind = 1;
        }
        if (hdr.value.a + 1 == 7) { // warns: compares what is computed in the condition
            hdr.value.kind = 2;
        }
        if (hdr.value.a[7:0] == 7 && hdr.value.isValid()) {
            hdr.value.kind = 3;
        }
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
