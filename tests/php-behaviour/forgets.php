<?php
// Boots, and forgets to call stoker_handle().
