//! The table of codes. A page is added here and as a file, `docs/errors/<area>/<name>.md`; a test holds both against the code.

use super::{Area, Page};

/// Lists the areas with what they are about and the names of their codes.
macro_rules! pages {
    ($($about:literal $area:ident { $($name:ident)* })*) => {
        /// Every area, by name.
        pub const AREAS: &[Area] = &[$(Area {
            name: stringify!($area),
            about: $about,
            pages: &[$(Page {
                code: concat!("step::", stringify!($area), "::", stringify!($name)),
                text: include_str!(concat!("../../../docs/errors/", stringify!($area), "/", stringify!($name), ".md")),
            }),*],
        }),*];
    };
}

pages! {
    "NPUs"
    ascend {
        failed
        hardware
        memory
        missing
        peer
    }

    "checkpoints of a run"
    checkpoint {
        busy
        damaged
        exists
        manifest
        newer
        none
        version
        write
    }

    "collectives between ranks"
    comm {
        aborted
        argument
        capacity
        group
        mismatch
        timeout
    }

    "files of text and their tokens"
    data {
        arrow
        changed
        column
        config
        conversation
        empty
        epochs
        format
        io
        json
        no_files
        order
        overlong
        pack_sft
        parquet
        position
        rope_range
        same_source
        separator
        source
        surrogate
        template
        thread
        tokenizer
        tokens
        too_small
        unsupervised
        utf8
        vocab
        weight
        window
    }

    "`stepc explain`"
    explain {
        ambiguous
        unknown
    }

    "`stepc export`"
    export {
        differs
        lost
    }

    "`stepc fmt`"
    fmt {
        unwritable
    }

    "`stepc import`, and `stepc new` of a folder"
    import {
        family
        no_config
        not_json
        unknown_key
        unsupported
        value
    }

    "architectures"
    model {
        bias_frozen
        bias_update
        groups
        kv_heads
        latent_beside
        latent_rope
        names_expert
        names_layer
        rope_divisors
        names_twice
        rope_fraction
        rope_scaling
        router_precision
        size
        top_groups
        top_k
        unknown_block
    }

    "`stepc new`"
    new {
        unknown_model
    }

    "files that are written"
    output {
        exists
        unwritable
    }

    "the division of work over devices"
    parallel {
        cp_heads
        device_dtype
        ep_dense
        ep_devices
        ep_experts
        ep_unset
        f16
        fsdp_devices
        mesh
        offload_host
        offload_reshard
        pp_bubble
        pp_layers
        pp_tied
        precision
        sequence
        tp_heads
        tp_inner
        tp_vocab
    }

    "compiled plans"
    plan {
        estimated
        few_rows
        invalid
        memory
        small_messages
        small_shards
        unreadable
        unwritable
    }

    "blocks, items, profiles and files"
    recipe {
        ambiguous
        base_cycle
        devices
        duplicate
        missing
        nameless
        no_effect
        no_recipe
        path
        require
        set_layer
        several_recipes
        stray_if
        unknown_block
        unknown_device
        unknown_item
        unknown_key
        unknown_kind
        unknown_profile
        unreadable
        unused_let
        use_cycle
        use_not_found
    }

    "what has changed since a checkpoint"
    resume {
        architecture
        data
        model
        optimizer
        schedule
        seed
        sequence
        tokenizer
        train
        weights_only
    }

    "where a recipe can run"
    run {
        no_target
        unsupported
    }

    "training"
    runtime {
        internal
        memory
        metrics
        not_finite
        signal
        threads
    }

    "text that cannot be read"
    syntax {
        assignment
        chained_comparison
        comment
        control_character
        escape
        expected
        foreign_format
        internal
        lookalike
        misplaced
        number_range
        operator
        quotes
        semicolon
        separator
        stray
        too_deep
        unclosed
        unclosed_comment
        unclosed_string
        unknown_kind
    }

    "batches, learning rates, checkpoints"
    train {
        checkpoint_every
        global_batch
        lr
        min_lr
        sft_scratch
        size
        warmup
    }

    "expressions and their values"
    value {
        ambiguous
        arguments
        bounds
        cycle
        division_by_zero
        index
        mismatch
        overflow
        too_deep
        too_long
        unknown_function
        unknown_name
        unknown_unit
        unknown_word
    }

    "checkpoints"
    weights {
        dtype
        file
        index
        missing
        nan
        open
        read
        rounded
        shape
        tied
        unused
        write
    }

    "`stepc tune`"
    tune {
        name
        native
        nothing_fits
        set
        taken
    }

    "`stepc check --why`"
    why {
        unknown_path
    }
}
