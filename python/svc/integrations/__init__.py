"""Callbacks for training frameworks, each in a module of its own that imports its framework only when it is imported.

=========================================  ==============================================
``svc.integrations.transformers``          ``SvcCallback`` for the Hugging Face ``Trainer``
``svc.integrations.lightning``             ``SvcLogger`` for Lightning's ``Trainer``
``svc.integrations.accelerate``            ``SvcTracker``, ``save_state``
``svc.integrations.keras``                 ``SvcCallback``, ``load_latest``
=========================================  ==============================================

They need only ``svc`` and the script's own framework. Python 3.8 or newer.
"""
