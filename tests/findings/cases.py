"""What `taupy report` is expected to say first: the kind of finding, and what it names."""

from __future__ import annotations

LOOP, BUSY = "loop over elements", "one thread at a time"
STALL = "checkpoints and logging"
IMPORTS, IMBALANCE, AGAIN = "imports and start-up", "imbalance", "recompilation"
PICKLED = "data pickled for each job"
HISTORY, MEMORY = "growing history", "memory growth"
SYNC, COPIES, TINY, DATA = "synchronisation", "copies", "tiny kernels", "data wait"

POLLING, LOOP_OF_EVENTS, SEARCH = "polling", "event loop", "search through everything"
SAME, ONE_BY_ONE = "same work again", "one by one"

PROGRAMS = {
    "drawings_scored": (f"{LOOP_OF_EVENTS}: blocked", "judged (drawings_scored.py:28)"),
    "logins_hashed": (f"{LOOP_OF_EVENTS}: blocked", "check (logins_hashed.py:8)"),
    "amounts_one_by_one": (LOOP, "Export.time"),
    "calls_in_line": (f"{SEARCH}: list moved", "calls_in_line.py:10"),
    "outliers": (f"{SAME}: in each iteration", "outliers.py:10"),
    "pages_to_visit": (f"{SEARCH}: list", "pages_to_visit.py:14"),
    "places_of_runners": (f"{SEARCH}: list", "places_of_runners.py:9"),
    "average_so_far": (HISTORY, "Player.average"),
    "codec_at_each_call": (IMPORTS, "Packer.pack"),
    "days_one_by_one": (LOOP, "parsed"),
    "discounts_by_apply": (LOOP, "total"),
    "documents_by_threads": (f"{BUSY}: GIL", "GIL"),
    "frames_kept": (MEMORY, "Camera.take (frames_kept.py:11)"),
    "letters_from_text": (AGAIN, "letter (letters_from_text.py:9)"),
    "log_of_each_request": (STALL, "Server.serve"),
    "model_for_each_job": (PICKLED, "Judge.all"),
    "pages_of_site": (AGAIN, "Site.render"),
    "table_on_demand": (IMPORTS, "pandas"),
    "range_of_each_day": (LOOP, "spread"),
    "report_concatenated": (HISTORY, "Report.add"),
    "moves_replayed": (f"{HISTORY}: measured", "Machine.place"),
    "requests_as_json": (STALL, "handle (requests_as_json.py:10)"),
    "routes_by_pattern": (AGAIN, "Router.find (routes_by_pattern.py:15)"),
    "table_for_each_job": (PICKLED, "main"),
    "trace_stacked": (HISTORY, "Trace.add"),
    "cells_of_grid": (LOOP, "relax"),
    "chatty_log": (STALL, "step"),
    "checkpoint_each_step": (STALL, "main"),
    "heavy_import": (IMPORTS, "sklearn"),
    "histogram_by_hand": (LOOP, "histogram"),
    "history_grows": (HISTORY, "step"),
    "leaking_cache": (MEMORY, "answer (leaking_cache.py:9)"),
    "many_patterns": (AGAIN, "mentions (many_patterns.py:10)"),
    "one_lock": (f"{BUSY}: lock held", "lookup"),
    "one_long_task": (IMBALANCE, "simulate"),
    "optional_import": (IMPORTS, "an_accelerated_parser"),
    "pairwise": (LOOP, "distances"),
    "rows_of_table": (LOOP, "norm"),
    "running_mean": (LOOP, "smooth"),
    "scale_pixels": (LOOP, "adjust"),
    "slow_producer": (f"{BUSY}: producer", "train"),
    "state_as_json": (STALL, "save"),
    "table_row_by_row": (LOOP, "total"),
    "tables_at_import": (IMPORTS, "primes"),
    "threads_for_python": (f"{BUSY}: GIL", "GIL"),
    "uneven_processes": (IMBALANCE, "count"),
    "uneven_threads": (IMBALANCE, "compress"),
    "vectorized_in_name": (LOOP, "price"),
}

INDEPENDENT = {
    "archive_hash": (IMBALANCE, "Worker.run"),
    "autoencoder_ckpt": (STALL, "RestartPoints.maybe_save"),
    "bandit": (HISTORY, "Baseline.value"),
    "daily_totals": (IMPORTS, "sklearn"),
    "debug_messages": (STALL, "Experts.fit (debug_messages.py:41)"),
    "feature_queue": (f"{BUSY}: producer", "reader"),
    "gibbs_snapshots": (STALL, "save_state"),
    "graph_scores": (LOOP, "reciprocal_ranks"),
    "heat_plate": (LOOP, "Plate.advance"),
    "image_classifier": (DATA, "PackedTiles.__getitem__"),
    "kalman_history": (HISTORY, "Tracker.learn"),
    "metric_writer": (STALL, "MetricFile.write"),
    "pack_store": (f"{BUSY}: lock held", "Store.put"),
    "pool_blocks": (IMBALANCE, "rows"),
    "scatter_report": (IMPORTS, "_smooth_numbers"),
    "sensor_cache": (MEMORY, "Spectra.get (sensor_cache.py:28)"),
    "seq_trainer": (MEMORY, "Trainer.step"),
    "trip_fares": (LOOP, "haversine"),
    "varlen_encoder": (AGAIN, "main"),
    "warmup_schedule": (AGAIN, "main"),
}
"""By an author who had not read the rules."""

UNSEEN = {
    "online_pca": "its steps are loops of its own, of which only sums are kept",
    "reweight_steps": "the same",
}
"""Faults of theirs in which nothing is found, and why."""

TRAININGS = {
    "tiny_kernels": (TINY, "vectorized_elementwise_kernel"),
    "pageable_copies": (COPIES, "to_device"),
    "small_copies": (COPIES, "collate"),
    "item_each_step": (SYNC, "running_loss"),
    "synchronize_each_layer": (SYNC, "Stopwatch.layer"),
    "python_between_launches": ("host slower than GPU", "Beam.extend"),
    "loader_without_workers": (DATA, "Pictures.__getitem__"),
    "loader_with_few_workers": (DATA, "_BaseDataLoaderIter"),
    "single_precision": ("tensor cores unused", "FP32"),
    "half_without_tensor_cores": ("tensor cores unused", "half precision"),
    "kernels_without_flop": ("kernels without flop", "direct_copy_kernel"),
    "allocation_each_step": (SYNC, "Workspace.__exit__"),
    "tokens_drawn_in_python": ("host slower than GPU", "draw"),
    "averages_of_parameters": (TINY, "lerp"),
    "metrics_one_by_one": (COPIES, "Metrics.read"),
    "staging_each_step": (SYNC, "Stage.open"),
    "masks_and_casts": ("kernels without flop", "masked_fill_kernel"),
    "convolutions_in_single": ("tensor cores unused", "implicit_convolve_sgemm"),
    "odd_vocabulary": ("tensor cores unused", "half precision"),
    "results_to_host": (COPIES, "collect_outputs"),
    "one_slow_rank": (IMBALANCE, "rank 2"),
    "compiled_again": (AGAIN, "step"),
    "saved_each_step": (STALL, "keep"),
}

BY_OTHERS = {
    "backup_audit": ONE_BY_ONE,
    "build_board": POLLING,
    "churn_features": ONE_BY_ONE,
    "clinic_sim": SEARCH,
    "courier_quotes": SAME,
    "halftone": ONE_BY_ONE,
    "item_vectors": ONE_BY_ONE,
    "label_press": POLLING,
    "layer_stats": SAME,
    "lead_scoring": ONE_BY_ONE,
    "mail_filter": SEARCH,
    "order_desk": SEARCH,
    "patch_shards": SAME,
    "plate_heat": SAME,
    "price_collector": LOOP_OF_EVENTS,
    "sensor_gateway": LOOP_OF_EVENTS,
    "telemetry_stream": ONE_BY_ONE,
    "tube_planner": ONE_BY_ONE,
}
"""Programs in `programs/by_others`, with the rule that finds the fault, and not in the twin."""

LOOK_ALIKES = {
    POLLING: ("waiting_for_work", "asyncio_queue", "paced_frames"),
    LOOP_OF_EVENTS: (
        *("asyncio_queue", "waiting_for_work", "polite_crawler", "one_connection"),
        *("loop_between_work", "loop_of_small_steps"),
    ),
    SEARCH: ("word_counts", "edit_distance_and_parser", "orders"),
    SAME: (
        "templates_kept",
        "rules_compiled",
        "regression_by_gradient",
        "newton_in_place",
        "levels_each_step",
    ),
    ONE_BY_ONE: ("recurrence", "kmeans", "pool_bootstrap", "slow_peer"),
    LOOP: ("edit_distance", "recurrence", "queens", "matrix_products"),
    BUSY: ("two_threads", "waiting_for_work", "asyncio_queue", "slow_producer"),
    STALL: ("some_log_lines", "word_counts", "mlp_in_memory"),
    IMPORTS: ("orders", "forest", "text_pipeline"),
    IMBALANCE: ("even_threads", "even_processes", "pool_in_turn", "even_ranks"),
    AGAIN: ("rules_compiled", "templates_kept"),
    PICKLED: ("pool_bootstrap", "even_processes"),
    HISTORY: ("last_values", "window_of_values", "kmeans"),
    MEMORY: ("buffers_reused", "database_in_memory"),
    DATA: ("well_fed", "loader_keeps_up", "conv_prefetch"),
    SYNC: ("well_fed", "read_when_ready", "memory_from_a_pool"),
    COPIES: ("well_fed", "read_when_ready"),
    TINY: ("graph_replay", "python_ahead"),
    "host slower than GPU": ("python_ahead", "well_fed"),
    "idle GPU": ("reduces_beside_products", "warm_up_at_the_start"),
    "kernels without flop": ("memory_from_a_pool", "old_and_narrow"),
    "tensor cores unused": ("old_and_narrow", "products_of_vectors"),
}
"""Healthy programs and trainings that look like a fault of that kind. What looks like the others is
in the modules of their tests."""

WITHOUT_ADVICE = (DATA, "idle GPU", "regression", "step time")
"""Kinds whose advice nobody has tried in two programs: they say what was measured."""
