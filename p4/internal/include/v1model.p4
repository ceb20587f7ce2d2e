/* The architecture v1model of the BMv2 software switch. */
#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include <core.p4>

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

// From version 20200408 on, what indexes arrays is a type parameter.
#if V1MODEL_VERSION >= 20200408
#define _V1_INDEXED <I>
#define _V1_INDEXED_BY <T, I>
#define _V1_INDEX I
#else
#define _V1_INDEXED
#define _V1_INDEXED_BY <T>
#define _V1_INDEX bit<32>
#endif

match_kind { range, optional, selector }

const bit<32> __v1model_version = V1MODEL_VERSION;

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#define _V1_PORT PortId_t
#else
#define _V1_PORT bit<9>
#endif

@metadata
@name("standard_metadata")
struct standard_metadata_t {
    _V1_PORT ingress_port;
    _V1_PORT egress_spec;
    _V1_PORT egress_port;
    bit<32>  instance_type;
    bit<32>  packet_length;                                                            // bytes
    @alias("queueing_metadata.enq_timestamp") bit<32> enq_timestamp;                   // us
    @alias("queueing_metadata.enq_qdepth") bit<19> enq_qdepth;                         // packets
    @alias("queueing_metadata.deq_timedelta") bit<32> deq_timedelta;                   // us
    @alias("queueing_metadata.deq_qdepth") bit<19> deq_qdepth;                         // packets
    @alias("intrinsic_metadata.ingress_global_timestamp") bit<48> ingress_global_timestamp; // us
    @alias("intrinsic_metadata.egress_global_timestamp") bit<48> egress_global_timestamp;   // us
    @alias("intrinsic_metadata.mcast_grp") bit<16> mcast_grp;
    @alias("intrinsic_metadata.egress_rid") bit<16> egress_rid;
    bit<1>   checksum_error;
    error    parser_error;
    @alias("intrinsic_metadata.priority") bit<3> priority;
}

enum CounterType { packets, bytes, packets_and_bytes }
enum MeterType { packets, bytes }
enum CloneType { I2E, E2E }
enum HashAlgorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 }

#define V1MODEL_METER_COLOR_GREEN  0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED    2

extern counter _V1_INDEXED {
    counter(bit<32> size, CounterType type);
    void count(in _V1_INDEX index);
}

extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

extern meter _V1_INDEXED {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in _V1_INDEX index, out T result);
}

extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

extern register _V1_INDEXED_BY {
    register(bit<32> size);
    void read(out T result, in _V1_INDEX index);
    void write(in _V1_INDEX index, in T value);
}

extern action_profile {
    action_profile(bit<32> size);
}

extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

// The former way to compute a checksum.
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

extern void random<T>(out T result, in T lo, in T hi);
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);
extern void digest<T>(in bit<32> receiver, in T data);

extern void mark_to_drop();
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

extern void clone(in CloneType type, in bit<32> session);
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
extern void resubmit<T>(in T data);
extern void resubmit_preserving_field_list(bit<8> index);
extern void recirculate<T>(in T data);
extern void recirculate_preserving_field_list(bit<8> index);

extern void truncate(in bit<32> length); // bytes

extern void assert(in bool check);
extern void assume(in bool check);
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

parser Parser<H, M>(packet_in b, out H parsedHdr, inout M meta, inout standard_metadata_t standard_metadata);
control VerifyChecksum<H, M>(inout H hdr, inout M meta);
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control ComputeChecksum<H, M>(inout H hdr, inout M meta);
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p,
                       VerifyChecksum<H, M> vr,
                       Ingress<H, M> ig,
                       Egress<H, M> eg,
                       ComputeChecksum<H, M> ck,
                       Deparser<H> dep);

#endif
